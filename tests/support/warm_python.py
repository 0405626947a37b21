"""A `python` that has loaded torch already, for tests that start many programs.

Loading it takes two seconds of CPU time, more than most programs of tests then need. Here a server
loads it once. What is started then is a client: it hands its arguments, environment, folder and
open files over to a copy of the server, in which the program runs; it passes signals on, and ends
as the program does. The code of `nmt` is not loaded before, so that each program has its own.

Python's own variables, such as PYTHONIOENCODING, have no effect. If a client is killed (SIGKILL),
its program ends a moment later. So a test of how Python starts, of what is loaded when, or that
kills what it has started, needs `sys.executable`.

    warm_python.py serve LISTENER                       until stdin is closed
    warm_python.py run SOCKET [-u] SCRIPT WORDS...      or -m MODULE, or -c CODE
"""

import array
import contextlib
import functools
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

PASSED_ON = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)
LIBRARIES = (
    "numpy pytest rich.live sacrebleu safetensors.torch sentencepiece torch"
    " torch.distributed.nn.functional typer"
).split()
MAYBE_MISSING = (
    "pydantic.type_adapter",  # which typer needs since 0.29
    "matplotlib.figure",
    "matplotlib.backends.backend_svg",
)
MOST_FILES = 250  # that one message can hold
LENGTH_BYTES = 8


@functools.cache
def warm_python() -> str:
    """Start a server; return the path of a command that stands for `sys.executable`."""
    import shlex
    import subprocess
    import tempfile

    import torch

    if sys.platform != "linux" or torch.cuda.is_available():  # not all drivers survive a fork
        return sys.executable
    folder = Path(tempfile.mkdtemp(prefix="nmt-", dir="/tmp"))  # a socket has a short path
    python, place = folder / "python", folder / "socket"
    words = [sys.executable, "-I", "-S", __file__, "run", str(place)]
    python.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    python.chmod(0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen(64)  # clients wait while the server loads libraries
        SERVERS.append(
            subprocess.Popen(
                [sys.executable, __file__, "serve", str(listener.fileno())],
                stdin=subprocess.PIPE,  # which is closed when this process ends
                stdout=subprocess.DEVNULL,
                pass_fds=[listener.fileno()],
                cwd="/",
                # What `nmt` sets before it loads torch and matplotlib, which are loaded here.
                env=os.environ
                | {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
                | {"MATPLOTLIBRC": os.devnull, "MPLBACKEND": "svg"},
                start_new_session=True,  # Ctrl-C is for this process
            )
        )
    return str(python)


SERVERS: list[Any] = []  # that this process has started


def serve(listener: socket.socket) -> dict[str, Any]:
    """Start a copy of this process for each client; return what is asked for, in the copy."""
    import gc
    import importlib
    import select
    import shutil
    import warnings

    # Libraries may keep files open. These get numbers that no program's files have.
    reserved = [os.open(os.devnull, os.O_RDONLY) for _ in range(MOST_FILES)]
    for name in LIBRARIES:
        importlib.import_module(name)
    for name in MAYBE_MISSING:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for number in reserved:
        os.close(number)
    for category in (DeprecationWarning, PendingDeprecationWarning):
        warnings.filterwarnings("error", category=category, module=r"nmt\b")
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how the copies end
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        client, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            return answer(client)
        client.close()
    shutil.rmtree(Path(listener.getsockname()).parent)
    sys.exit()


def answer(client: socket.socket) -> dict[str, Any]:
    """Return in a process that becomes the program; in this one, tell the client of its end."""
    import threading

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asked, files = receive(client)
    program = os.fork()
    if program == 0:
        client.close()
        become(asked, files)
        return asked
    for file in files:
        os.close(file)
    with contextlib.suppress(OSError):  # a client that was killed is noticed below
        client.sendall(program.to_bytes(LENGTH_BYTES, "big", signed=True))

    def end_with_client() -> None:
        with contextlib.suppress(OSError):
            client.recv(1)  # which it never sends
            os.kill(program, signal.SIGKILL)

    threading.Thread(target=end_with_client, daemon=True).start()
    status = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    with contextlib.suppress(OSError):
        client.sendall(status.to_bytes(LENGTH_BYTES, "big", signed=True))
    os._exit(0)


def receive(client: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return what a client asks for, and its files."""
    length, files, _, _ = socket.recv_fds(client, LENGTH_BYTES, MOST_FILES)
    data = b""
    while len(data) < int.from_bytes(length, "big"):
        data += client.recv(1 << 16)
    return json.loads(data), files


def become(asked: dict[str, Any], files: list[int]) -> None:
    """Give this process what a process has from its parent."""
    import fcntl

    numbers = asked["files"]
    apart = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 200) for file in files]
    for file in {0, 1, 2, *files} - set(numbers):
        os.close(file)
    for file, number in zip(apart, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)
    for name, file, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        stream = None
        if file in numbers:
            by_line = 1 if name == "stderr" or os.isatty(file) else -1
            errors = getattr(sys, name).errors
            stream = open(file, mode, by_line, "utf-8", errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.chdir(asked["folder"])
    os.umask(asked["umask"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    for number in PASSED_ON:
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in asked["ignored"] else usual)


def run(words: list[str]) -> None:
    """Be what `python` is with these words."""
    import runpy

    option, rest = words[0], words[1:]
    paths = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    folders = {"-c": "", "-m": str(Path.cwd())}
    sys.path[0:1] = [folders.get(option, str(Path(option).resolve().parent)), *paths]
    if option == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif option == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(rest[0], {"__name__": "__main__"})
    else:
        sys.argv = words
        runpy.run_path(option, run_name="__main__")


def ask(place: str, words: list[str]) -> NoReturn:
    """Let a copy of the server be the program, and end as it does."""
    server = socket.socket(socket.AF_UNIX)
    server.connect(place)
    files = [one for one in range(MOST_FILES) if one != server.fileno() and is_open(one)]
    asked = {
        "words": words,
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "umask": os.umask(0),
        "ignored": [one for one in PASSED_ON if signal.getsignal(one) == signal.SIG_IGN],
        "files": files,
    }
    data = json.dumps(asked).encode()
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # it may start before we hear of it
    length = len(data).to_bytes(LENGTH_BYTES, "big")
    server.sendmsg([length], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))])
    server.sendall(data)
    program = hear(server)

    def pass_on(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):  # its end is about to be heard of
            os.kill(program, number)

    for number in PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    status = hear(server)
    if status < 0:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def hear(server: socket.socket) -> int:
    answer = server.recv(LENGTH_BYTES)
    if not answer:
        sys.exit("warm_python.py: the server has ended")
    return int.from_bytes(answer, "big", signed=True)


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        run(serve(socket.socket(fileno=int(sys.argv[2])))["words"])
    else:
        ask(sys.argv[2], [word for word in sys.argv[3:4] if word != "-u"] + sys.argv[4:])
