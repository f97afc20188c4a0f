"""Figures by matplotlib as SVG within the page; told apart by markers, line styles and hatches, not by colours."""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch_conv.cli._images import needed
from torch_conv.cli.report.results import Document

RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
PIXELS = 96  # of an inch
SETTINGS = {
    "svg.hashsalt": "torch_conv",  # the same results make the same page
    "svg.fonttype": "none",  # text stays text, which the reader's own font shows
    "text.parse_math": False,  # a dollar in a name is a dollar
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.titlesize": 9,
    "legend.fontsize": 9,
    "hatch.linewidth": 0.6,
}
OURS = "torch_conv"
# (grey, marker, line) of what is in most figures; others take the next of OTHERS.
LINES = {
    OURS: ("0", "o", "-"),
    "copy": ("0.45", "", "--"),
    "best rival": ("0.35", "s", ":"),
    "own chain": ("0.2", "^", "-."),
    "F.conv2d": ("0.35", "s", ":"),
    "F.conv2d TF32": ("0.35", "D", ":"),
}
MARKERS = "^vPXd<>ph*8"
DASHES = ("-.", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)), (0, (6, 2, 1, 2, 1, 2)))
# Straight lines only: each circle of a hatch is a curve of its own, and figures grow ten times as large.
HATCHES = ("", "////", "\\\\\\\\", "", "xxxx", "----", "", "||||", "++++")
FILLS = ("0.55", "1", "1", "0.8", "1", "1", "0.95", "1", "1")


@dataclass(frozen=True)
class Figure:
    svg: str
    caption: str
    wide: bool = False  # kept wide on a narrow screen, where its box scrolls


@dataclass(frozen=True)
class Kind:
    """Figures of one kind: their heading, what draws them, and which results would bring them."""

    title: str
    draw: Callable[[Sequence[Document]], Iterator[Figure]]
    source: str


def drawn(width: float, height: float, caption: str, paint: Callable[[Any], None], wide: bool | None = None) -> Figure:
    """What `paint` puts on a canvas of so many inches."""
    matplotlib, figure = needed("matplotlib", "matplotlib"), needed("matplotlib.figure", "matplotlib")
    content = io.StringIO()
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name may hold characters that the measuring font lacks
        canvas = figure.Figure(figsize=(width, height), layout="constrained")
        paint(canvas)
        canvas.savefig(content, format="svg", metadata={"Date": None})
    alternative = caption.partition(".")[0]
    return Figure(inlined(content.getvalue(), width, alternative), caption, width > 6 if wide is None else wide)


def inlined(svg: str, width: float, alternative: str) -> str:
    """SVG as HTML takes it: no prolog, no addresses, only ids that are used, none of them in another figure."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    opening, _, rest = svg.partition(">")
    view = re.search(r'viewBox="[^"]*"', opening)
    prefix = f"s{hashlib.sha256(svg.encode('utf-8', 'replace')).hexdigest()[:8]}-"
    rest = re.sub(r"<style.*?</style>", "", rest, flags=re.DOTALL)  # the page has it
    rest = re.sub(r"<[^>]*>", lambda tag: slim(tag[0]), rest)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', rest))
    rest = re.sub(r' id="([^"]*)"', lambda m: f' id="{prefix}{m[1]}"' if m[1] in used else "", rest)
    rest = re.sub(r'(?:xlink:)?href="#', f'href="#{prefix}', rest).replace("url(#", f"url(#{prefix}")
    rest = re.sub(r"\n\s*", "\n", rest)
    label = alternative.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    shape = view[0] if view else ""
    return f'<svg {shape} style="max-width:{width * PIXELS:.0f}px" role="img" aria-label="{label}">{rest.strip()}'


def slim(tag: str) -> str:
    """Tenths of a point are enough of a coordinate, and the page names the font."""
    tag = re.sub(r"font-family: [^;\"]*;? ?", "", tag)
    tag = re.sub(r' transform="rotate\(-?0 [^"]*\)"|\s*;? ?stroke-linejoin: miter(?=")', "", tag)
    return re.sub(r"(\d\d\.\d|\d\.\d\d)\d+", r"\1", tag).replace("\n", "")


def styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """For each name a line like no other's."""
    others = [name for name in names if name not in LINES]
    made = {name: LINES[name] for name in names if name in LINES}
    for i, name in enumerate(others):
        made[name] = (f"{0.15 + 0.1 * (i % 4):.2f}", MARKERS[i % len(MARKERS)], DASHES[i % len(DASHES)])  # type: ignore[assignment]
    return {
        name: {
            "color": grey,
            "marker": marker or None,
            "linestyle": line,
            "linewidth": 2 if name == OURS else 1.1,
            "markersize": 4.5,
            "markerfacecolor": grey if name == OURS else "white",
            "zorder": 3 if name == OURS else 2,
        }
        for name, (grey, marker, line) in made.items()
    }


def filling(i: int) -> dict[str, Any]:
    """Of the i-th bar of a group: paper with hatches, or grey."""
    return {"facecolor": FILLS[i % len(FILLS)], "hatch": HATCHES[i % len(HATCHES)], "edgecolor": "0", "linewidth": 0.7}


def plain_ticks(axis: Any) -> None:
    """1, 10 and 100; powers of ten where those grow long."""
    axis.set_major_formatter(tick)


def tick(value: float, _: int = 0) -> str:
    if value < 1e5:
        return f"{value:g}"
    digit, power = f"{value:.0e}".split("e+")
    small = power.lstrip("0").translate(RAISED)
    return f"10{small}" if digit == "1" else f"{digit}·10{small}"


def legend(canvas: Any, columns: int, order: Sequence[str] = ()) -> None:
    """One for all panels, below them."""
    handles = {name: h for axes in canvas.axes for h, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    names = [name for name in order if name in handles] + [name for name in handles if name not in order]
    canvas.legend([handles[name] for name in names], names, loc="outside lower center", ncols=columns)
