"""The progress bar of a benchmark, drawn by rich on a terminal only."""

from __future__ import annotations

import sys
from typing import Any

from torch_conv.bench.usage import needed


def progress_bar(still: bool = False) -> Any:
    """A bar of rich. Elsewhere than on a terminal it is disabled, because rich would print an empty line.

    A still bar has no thread that redraws it: the thread would run during timed calls.
    """
    progress, console = (needed(f"rich.{name}", "rich") for name in ("progress", "console"))
    screen = console.Console(stderr=True)
    return progress.Progress(
        *progress.Progress.get_default_columns(),
        console=screen,
        transient=True,
        auto_refresh=not still,
        speed_estimate_period=600.0 if still else 30.0,  # seconds; a timed step may take half a minute
        redirect_stdout=sys.stdout.isatty(),  # a file receives its lines unchanged
        disable=not screen.is_terminal,
    )
