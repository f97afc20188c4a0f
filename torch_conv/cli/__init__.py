"""The commands of the command line, a module or folder each; `torch_conv_cli.py` starts them."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Iterator

from torch_conv.bench.files import reason
from torch_conv.bench.usage import UsageError

LIBRARY_REFUSAL = re.compile(r"[a-z]\w*: ")  # it begins with the function's name


@contextlib.contextmanager
def user_arguments() -> Iterator[None]:
    """Turns refusals of the library into UsageError. Any other error is a bug and passes."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if not LIBRARY_REFUSAL.match(str(error)):
            raise
        raise UsageError(str(error)) from error


def add_force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="replace an output file that exists already")


def sentence_of(error: Exception) -> str:
    """The reason of a refusal; empty for a bug, which shows its traceback."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {reason(error)}"
    if isinstance(error, (UsageError, OSError)):
        return str(error)
    return "there is not enough memory" if of_memory(error) else ""


def of_memory(error: Exception) -> bool:
    """Whether memory ran out: Python's, a GPU's, or the CPU's, for which torch has no class."""
    if not isinstance(error, (MemoryError, RuntimeError)):
        return False
    import torch  # benchmarks/report.py reads modules of this package without it

    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)
