"""How a script of the recipe ends: with one line that says why, and the exit statuses of `nmt`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

from nmt import console
from nmt.errors import EXIT_FAILED, EXIT_STOPPED, NMTError


def run(main: Callable[[], None]) -> NoReturn:
    """Call a script's main function, and exit."""
    try:
        main()
    except NMTError as error:
        console.error(str(error))
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        console.warning("stopped; run the same command again to go on")
        sys.exit(EXIT_STOPPED)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        console.error(f"{where}{error.strerror or error}")
        sys.exit(EXIT_FAILED)
    sys.exit()
