"""Packages that may be missing: a driver that cannot have what it needs is skipped, and says why.

    websockets = load("websockets.sync.client")
"""

from __future__ import annotations

import importlib
import unittest
from types import ModuleType


def load(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise unittest.SkipTest(f"the Python package `{name.split('.')[0]}` is not installed: {error}") from error
