"""Refusals of the command line and of the project's programs: one sentence, exit status 2."""

from __future__ import annotations

import importlib
from typing import Any


class UsageError(Exception):
    """Bad input from the command line: one plain sentence, exit status 2."""


def needed(module: str, package: str) -> Any:
    """Imports a module of the extra `cli`, or refuses with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"{package} is not installed: pip install 'torch-conv[cli]'") from error
