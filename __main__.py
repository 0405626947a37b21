"""What `python -m nmt` finds where the current folder holds a clone of this name.

Python takes the clone's folder for the package itself, if nmt is installed in a way that comes
later on its path. This hands on to the package.
"""

import sys
from pathlib import Path

sys.modules.pop("nmt", None)
sys.path.insert(0, str(Path(__file__).resolve().parent))

from nmt.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
