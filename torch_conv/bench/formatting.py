"""Numbers as text, the same on the page and in the documents' tables."""

from __future__ import annotations

from typing import Any


def duration(us: float | None) -> str:
    if us is None:
        return ""
    return f"{us / 1e6:.2f} s" if us >= 1e6 else f"{us / 1e3:.2f} ms" if us >= 1e3 else f"{us:.1f} us"


def percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def ratio(value: float | None, digits: int = 1) -> str:
    """A rival's time over ours. Below 1 it has two digits or three, so that no loss reads as 1.0."""
    if value is None:
        return ""
    return f"{value:.{digits}f}" if value >= 1 else f"{min(value, 0.999):.{3 if value >= 0.99 else 2}f}"


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def cell_text(value: Any) -> str:
    """A cell of a table whose columns the file names."""
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4g}" if abs(value) < 1e4 or abs(value) >= 1e15 else f"{value:.0f}"
