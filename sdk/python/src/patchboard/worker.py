"""`python -m patchboard.worker FILE_OR_MODULE`."""

from __future__ import annotations

import sys

from ._serve import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
