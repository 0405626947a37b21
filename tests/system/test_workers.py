"""Work in processes and threads: results in order, errors come through, nobody is left behind."""

import gc
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import connection
from pathlib import Path

import pytest
from processes import run_python, wait_until, wait_until_gone

from nmt.errors import DataError, NMTError
from nmt.system.prefetch import PAUSE, Pause, prefetched
from nmt.system.workers import Workers, map_in_order, number_of_this_worker


def square(number: int) -> tuple[int, int]:
    time.sleep(0.02 * (number % 3))  # so that later items are ready before earlier ones
    return number * number, os.getpid()


def refuse(number: int) -> int:
    if number == 3:
        raise DataError("three is refused")
    return number


class Ending:
    """Writes a file when it is collected as garbage."""

    def __init__(self, told: Path) -> None:
        self.told, self.itself = told, self

    def __del__(self) -> None:
        self.told.touch()


def collect(_: int) -> int:
    return gc.collect()


class Unpicklable(Exception):
    def __init__(self, one: object, two: object) -> None:
        super().__init__(f"{one} and {two}")


def refuse_oddly(number: int) -> int:
    raise Unpicklable(number, number)


def sleep_long(number: int) -> None:
    time.sleep(1_000 * number)


def die(number: int) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_once(died: Path, number: int) -> bytes:
    if number == 4 and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return bytes(number)


def die_writing_once(died: Path, number: int) -> bytes:
    def write_half(pipe: connection.Connection, content: memoryview) -> None:
        os.write(pipe.fileno(), bytes(content[: len(content) // 2]))
        os.kill(os.getpid(), signal.SIGKILL)

    if number == 4 and not died.exists():
        died.touch()
        connection.Connection._send = write_half  # type: ignore[attr-defined]  # in this process
    return bytes(number)


@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_with_their_items_and_in_order(workers: int) -> None:
    results = list(map_in_order(square, range(20), workers=workers))
    assert [item for item, _ in results] == list(range(20))
    assert [value for _, (value, _) in results] == [n * n for n in range(20)]
    processes = {process for _, (_, process) in results}
    assert (os.getpid() in processes) == (workers == 1)


def test_few_items_are_taken_ahead() -> None:
    items = iter(range(1000))
    results = map_in_order(square, items, workers=2)
    next(results)
    assert next(items) <= 6


def test_a_result_that_is_there_is_not_held_back_while_items_come() -> None:
    def items() -> Iterator[int]:
        for number in range(4, 100_000):
            yield number
            time.sleep(0.01)

    with Workers(refuse, 1) as workers:
        workers._ahead = 100_000
        coming = items()
        assert next(workers.map(coming)) == (4, 4)
        assert next(coming, None) is not None


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_worker_comes_through_in_its_place(workers: int) -> None:
    results = map_in_order(refuse, range(9), workers=workers)
    assert [next(results)[0] for _ in range(3)] == [0, 1, 2]
    with pytest.raises(DataError, match="three is refused"):
        next(results)


def test_an_error_that_cannot_be_sent_is_told_by_its_name() -> None:
    with (
        pytest.raises(RuntimeError, match="Unpicklable: 1 and 1"),
        Workers(refuse_oddly, 1, method="fork") as workers,
    ):
        list(workers.map([1]))


@pytest.mark.parametrize(
    ("method", "is_repeated"), [("spawn", False), ("fork", False), ("fork", True)]
)
def test_work_that_no_worker_survives_ends(method: str, is_repeated: bool) -> None:
    deaths: list[None] = []
    note = (lambda: deaths.append(None)) if is_repeated else None
    with (
        pytest.raises(NMTError, match="--workers"),
        Workers(die, 2, method=method, on_death=note) as workers,
    ):
        list(workers.map(range(9)))
    assert len(deaths) == (4 if is_repeated else 0)
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_work_that_nobody_wants_any_more_is_not_waited_for(method: str) -> None:
    with pytest.raises(KeyboardInterrupt), Workers(sleep_long, 2, method=method) as workers:
        for _ in workers.map(range(9)):
            raise KeyboardInterrupt
    assert not multiprocessing.active_children()


def test_no_worker_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, time
            from nmt.system.workers import map_in_order

            def work(item):
                print(os.getpid(), flush=True)
                time.sleep(1 if item < 2 else 100)
                return item

            if __name__ == "__main__":
                for _ in map_in_order(work, range(9), workers=2):
                    pass
            """
        )
    )
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    workers = {int(process.stdout.readline()) for _ in range(2)}
    process.kill()
    process.wait()
    process.stdout.close()
    wait_until_gone(workers)


@pytest.mark.parametrize(
    ("function", "method"), [(die_once, "spawn"), (die_once, "fork"), (die_writing_once, "fork")]
)
def test_what_a_dead_worker_had_in_hand_is_done_again(
    tmp_path: Path, function: Callable[[Path, int], bytes], method: str
) -> None:
    deaths: list[None] = []
    dying = partial(function, tmp_path / "died")
    with Workers(dying, 2, method=method, on_death=lambda: deaths.append(None)) as workers:
        results = list(workers.map(range(12)))
    assert results == [(number, bytes(number)) for number in range(12)]
    assert len(deaths) == 1
    assert not multiprocessing.active_children()


def number_after_a_death(died: Path, item: int) -> int:
    if item == 0 and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number_of_this_worker()


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_each_worker_has_a_number_whatever_has_died(tmp_path: Path, method: str) -> None:
    function = partial(number_after_a_death, tmp_path / "died")
    with Workers(function, 3, method=method, on_death=lambda: None) as workers:
        assert {number for _, number in workers.map(range(30))} == {0, 1, 2}


def test_workers_that_die_with_nothing_to_do_are_replaced() -> None:
    deaths: list[None] = []

    def items() -> Iterator[int | Pause]:
        yield from (1, 2, PAUSE)
        for process in multiprocessing.active_children():
            process.kill()
        yield from range(3, 9)

    with Workers(square, 2, on_death=lambda: deaths.append(None)) as workers:
        assert [item for item, _ in workers.map(items())] == [1, 2, *range(3, 9)]
    assert len(deaths) == 1


def test_the_end_of_a_worker_leaves_no_buffer_in_use() -> None:
    program = (
        "import gc, multiprocessing\n"
        "from nmt.errors import WorkerDied\n"
        "from nmt.system.workers import Workers\n"
        "def work():\n"
        "    with Workers(abs, 1, method='fork') as workers:\n"
        "        (process,) = multiprocessing.active_children()\n"
        "        process.kill()\n"
        "        process.join()\n"
        "        try:\n"
        "            list(workers.map([-1]))\n"
        "        except WorkerDied:\n"
        "            print('died')\n"
        "work()\n"
        "gc.collect()\n"
    )
    # Only from 3.13 on does Python say what goes wrong as it collects garbage, or with -X dev.
    done = run_python("-X", "dev", "-W", "ignore", "-c", program)
    assert (done.stdout, done.stderr) == ("died\n", "")


def test_a_failure_while_workers_write_large_results_ends_at_once() -> None:
    program = (
        "from nmt.system.workers import Workers\n"
        "if __name__ == '__main__':\n"
        "    for number in range(20):\n"
        "        try:\n"
        "            with Workers(bytes, 2, method='fork') as workers:\n"
        "                for count, _ in enumerate(workers.map([2_000_000] * 50)):\n"
        "                    if count == number % 7:\n"
        "                        raise ValueError\n"
        "        except ValueError:\n"
        "            pass\n"
    )
    run_python("-c", program)


# -------------------------------------------------------------------------------- ahead


def test_items_come_through_in_order_and_end_and_leave_no_thread() -> None:
    before = threading.active_count()
    assert list(prefetched(iter(range(100)), ahead=3)) == list(range(100))
    assert list(prefetched(iter(()), ahead=3)) == []
    found = prefetched(itertools.count(), ahead=2)
    assert [next(found) for _ in range(5)] == [0, 1, 2, 3, 4]
    found.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_a_few_items_are_made_ahead_and_no_more() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1000):
            made.append(number)
            yield number

    found = prefetched(items(), ahead=4)
    assert next(found) == 0
    wait_until(lambda: len(made) >= 6, "six items")
    time.sleep(0.05)
    assert len(made) == 6  # one taken, four ready, one that waits to be put there
    found.close()  # type: ignore[attr-defined]


def test_an_error_comes_through_in_its_place() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("bad")

    found = prefetched(items(), ahead=4)
    assert next(found) == 1
    with pytest.raises(ValueError, match="bad"):
        next(found)


def test_a_fork_does_not_collect_the_garbage_of_this_process(tmp_path: Path) -> None:
    gc.disable()
    try:
        Ending(tmp_path / "ended")
        with Workers(collect, 1, method="fork") as workers:
            list(workers.map([0]))
            assert not (tmp_path / "ended").exists()
    finally:
        gc.enable()
    gc.collect()
    assert (tmp_path / "ended").exists()  # here it is collected as always
