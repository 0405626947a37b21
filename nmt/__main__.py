"""The program: `nmt`, `python -m nmt`, and what starts each process of a training."""

from __future__ import annotations

from nmt.system.streams import open_closed_streams


def main() -> None:
    """Run the command line and exit."""
    open_closed_streams()  # before anything is imported that opens a file and keeps it
    from nmt.system.program import prepare_process

    prepare_process()
    from nmt.cli import main as run_command_line  # takes 0.2 s, in which signals may come

    run_command_line()


def program() -> None:
    """Run the command line and end the process."""
    try:
        main()
    except SystemExit as leaving:
        from nmt.cli.command import end_process

        if isinstance(leaving.code, int):
            end_process(leaving.code)
        raise


if __name__ == "__main__":
    program()
