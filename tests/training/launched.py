"""Start a Python program in some processes, as `nmt train --processes` does.

Arguments: their number, and what follows `python` on its command line.
"""

import sys

from nmt.system import program
from nmt.system.launch import launch

if __name__ == "__main__":
    program.prepare_process()
    sys.exit(launch(sys.argv[2:], int(sys.argv[1]), "as asked"))
