"""The progress bar of a benchmark, drawn by rich on a terminal only."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from torch_conv.bench.usage import needed


class Screen:
    """Standard error without its errors: on a full disk the bar is lost, not the measurement."""

    def __init__(self) -> None:
        self.stream = sys.stderr

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self.stream.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self.stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def progress_bar(still: bool = False) -> Any:
    """A bar of rich. Elsewhere than on a terminal it is disabled, because rich would print an empty line.

    A still bar has no thread that redraws it: the thread would run during timed calls.
    """
    progress, console = (needed(f"rich.{name}", "rich") for name in ("progress", "console"))
    screen = console.Console(file=Screen())
    return progress.Progress(
        *progress.Progress.get_default_columns(),
        console=screen,
        transient=True,
        auto_refresh=not still,
        speed_estimate_period=600.0 if still else 30.0,  # seconds; a timed step may take half a minute
        redirect_stdout=sys.stdout.isatty(),  # a file receives its lines unchanged
        disable=not screen.is_terminal,
    )
