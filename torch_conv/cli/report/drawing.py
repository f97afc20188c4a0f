"""Figures by matplotlib, as SVG or PNG. Markers, line styles and hatches repeat the information of colours."""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch_conv.bench.documents import OURS, Document

RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
PIXELS = 96  # of an inch
SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "torch_conv",  # the same results make the same page
    "svg.fonttype": "none",  # text stays text in the reader's font
    "text.parse_math": False,  # a dollar in a name is a dollar
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.titlesize": 9,
    "legend.fontsize": 9,
    "hatch.linewidth": 0.8,
}
CHOSEN = f"{OURS} (auto)"  # a wide line, because it coincides with one of its algorithms
# (colour, marker, line) of names that most figures have, in the legend's order. Others take the next of MARKERS.
LOOKS: dict[str, tuple[str, str, str]] = {
    CHOSEN: ("black", "", "-"),
    OURS: ("black", "o", "-"),
    "own chain": ("C0", "^", "-."),
    "torch_conv direct": ("C0", "v", "-"),
    "torch_conv separable": ("C0", "v", "-"),
    "torch_conv low_rank": ("C2", "^", "-"),
    "torch_conv fft": ("C1", "D", "-"),
    "best rival": ("C3", "s", ":"),
    "F.conv2d": ("C3", "s", ":"),
    "F.conv2d TF32": ("C5", "<", ":"),
    "F.conv2d by rows and columns": ("C6", ">", ":"),
    "F.avg_pool2d": ("C6", ">", ":"),
    "torch.fft": ("C4", "x", ":"),
    "torch.fft by hand, window ready": ("C4", "x", ":"),
    "torch.fft by hand": ("C7", "+", ":"),
    "torchvision": ("C7", "+", ":"),
    "kornia": ("C1", "D", ":"),
    "cupyx": ("C8", "P", ":"),
    "cupyx correlate": ("C8", "P", ":"),
    "cupyx oaconvolve": ("C9", "X", ":"),
    "OpenCV": ("navy", "*", ":"),
    "torch_conv in a CUDA graph": ("gray", "o", "--"),
    "torch_conv.distributed": ("C0", "v", "-"),
    "pad, exchange, cat, torch_conv": ("C1", "D", ":"),
    "pad, exchange, cat, F.conv2d": ("C3", "s", ":"),
    "DTensor F.conv2d": ("C4", "x", ":"),
    "CPU loop": ("0.6", "P", "-"),
    "V1 naive": ("C0", "v", "-"),
    "constant": ("C9", "^", "-"),
    "V2 tiled": ("C2", "s", "-"),
    "L2 halo": ("C8", "D", "-"),
    "V3 fused": ("C4", "s", "-"),
    "V2 one by one": ("C6", "s", "-"),
    "copy": ("gray", "", "--"),
}
MARKERS = "o^vsDPXd<>p*"
# Straight lines only, because circles make figures ten times as large.
HATCHES = ("", "///", "\\\\\\", "xxx", "---", "|||", "+++")
HATCH = {"constant": "///", "V2 tiled": "+++", "L2 halo": "xxx", "V3 fused": "---", "V2 one by one": "|||"}
HATCH |= {"F.conv2d": "\\\\\\"}


@dataclass(frozen=True)
class Figure:
    """A canvas of so many inches, and the function that paints it."""

    width: float
    height: float
    caption: str
    paint: Callable[[Any], None]
    title: str = ""  # above the figure in a PNG file, which has no caption

    @property
    def wide(self) -> bool:
        """Whether the figure scrolls on a narrow screen instead of shrinking."""
        return self.width > 6

    def png(self, dpi: int = 110) -> bytes:
        return self._saved("png", dpi=dpi)

    def svg(self) -> str:
        drawn = self._saved("svg", metadata={"Date": None}).decode()
        return inlined(drawn, self.width, self.caption.partition(".")[0])

    def _saved(self, kind: str, **options: Any) -> bytes:
        import matplotlib
        from matplotlib.figure import Figure as Canvas

        content = io.BytesIO()
        with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a name may hold characters that the measuring font lacks
            canvas = Canvas(figsize=(self.width, self.height), layout="constrained")
            self.paint(canvas)
            if kind == "svg":
                for axes in canvas.axes:
                    axes.minorticks_off()  # minor ticks would be a tenth of the page
            elif self.title:
                canvas.suptitle(self.title, fontsize=11)
            canvas.savefig(content, format=kind, **options)
        return content.getvalue()


@dataclass(frozen=True)
class Kind:
    """Figures of one kind: heading, drawing function, and the command that measures their results."""

    title: str
    draw: Callable[[Sequence[Document]], Iterator[Figure]]
    source: str


def inlined(svg: str, width: float, alternative: str) -> str:
    """SVG for HTML: without prolog and addresses, with used ids only, unique to this figure."""
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
    """The tag with coordinates in tenths of a point and without a font."""
    tag = re.sub(r"font-family: [^;\"]*;? ?", "", tag)
    tag = re.sub(r' transform="rotate\(-?0 [^"]*\)"|\s*;? ?stroke-linejoin: miter(?=")', "", tag)
    return re.sub(r"(\d\d\.\d|\d\.\d\d)\d+", r"\1", tag).replace("\n", "")


def in_order(names: Iterable[str]) -> list[str]:
    """The names without repetition, those of LOOKS first."""
    once = dict.fromkeys(names)
    return [*(name for name in LOOKS if name in once), *(name for name in once if name not in LOOKS)]


def styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """A distinct line style for each name."""
    others = [name for name in names if name not in LOOKS]
    made = {name: LOOKS[name] for name in names if name in LOOKS}
    for i, name in enumerate(others):
        made[name] = (f"C{i % 10}", MARKERS[i % len(MARKERS)], ("-", ":", "-.")[i // 10 % 3])
    chosen = {"linewidth": 5, "alpha": 0.3, "zorder": 1}
    return {
        name: {"color": color, "marker": marker or None, "linestyle": line, "linewidth": 1.4, "markersize": 4.5}
        | (chosen if name == CHOSEN else {})
        for name, (color, marker, line) in made.items()
    }


def filling(name: str, i: int) -> dict[str, Any]:
    """The style of bars of this name, the i-th of a figure."""
    color, *_ = LOOKS.get(name, (f"C{i % 10}",))
    hatch = HATCH.get(name, "" if name in LOOKS else HATCHES[i % len(HATCHES)])
    return {"facecolor": color, "hatch": hatch, "edgecolor": "white", "linewidth": 0.7}


def logarithmic(axes: Any, across: Sequence[float] = (), up: bool = True) -> None:
    """Logarithmic axes with ticks at these places, with 1, 10 and 100, or with powers of ten where those grow long."""
    axes.set(xscale="log", **({"yscale": "log"} if up else {}))
    for axis in [axes.xaxis, axes.yaxis][: 1 + up]:
        axis.set_major_formatter(tick)
    if across:
        axes.set_xticks(across, [f"{place:g}" for place in across])
    axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    axes.tick_params(axis="y", which="minor", labelleft=False)


def tick(value: float, _: int = 0) -> str:
    if value < 1e5:
        return f"{value:g}"
    digit, power = f"{value:.0e}".split("e+")
    small = power.lstrip("0").translate(RAISED)
    return f"10{small}" if digit == "1" else f"{digit}·10{small}"


def legend(canvas: Any, columns: int, panels: Iterable[Any] = (), order: Sequence[str] = ()) -> None:
    """One for all panels, or for these, below them."""
    handles: dict[str, Any] = {}
    for axes in panels or canvas.axes:
        handles.update({name: h for h, name in zip(*axes.get_legend_handles_labels(), strict=True)})
    names = [*order, *(name for name in handles if name not in order)]
    canvas.legend([handles[name] for name in names], names, loc="outside lower center", ncols=columns)
