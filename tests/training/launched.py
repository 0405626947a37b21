"""Run a Python program in some processes, as `nmt train --processes` does.

Arguments: their number, and what follows `python` on its command line: -c CODE, or SCRIPT.
"""

import runpy
import sys
from functools import partial

from nmt.cli.command import exit_status
from nmt.system import program
from nmt.system.launch import launch


def run(words: list[str]) -> int:
    """Be what `python` is with these words; return its exit status."""
    try:
        if words[0] == "-c":
            sys.argv = ["-c", *words[2:]]
            exec(words[1], {"__name__": "__main__"})
        else:
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as leaving:
        return int(leaving.code or 0)
    return 0


if __name__ == "__main__":
    program.prepare_process()
    sys.exit(launch(partial(exit_status, partial(run, sys.argv[2:])), int(sys.argv[1])))
