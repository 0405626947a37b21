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


if __name__ == "__main__":
    main()
