"""The page: its head, the summary, the figures that the files allow, and a table for each file."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_conv import __version__
from torch_conv.bench.documents import Document
from torch_conv.cli.report import bars, curves, maps, markup
from torch_conv.cli.report.drawing import Figure, Kind
from torch_conv.cli.report.summary import summary
from torch_conv.cli.report.tables import tables

FIGURES: tuple[Kind, ...] = (
    Kind("Time over size", curves.sizes, "`torch-conv bench filter3d` or `torch-conv bench fused`"),
    Kind("Time over the window's size", curves.windows, "`torch-conv bench blur` or `torch-conv bench large_windows`"),
    Kind("Textbook kernels", bars.kernels, "`torch-conv bench ladder` or `torch-conv bench volume`"),
    Kind("Fused against unfused", bars.fused, "`torch-conv bench fused`"),
    Kind("Roofline", maps.roofline, "`torch-conv bench filter2d` or another of its kind, on a GPU"),
    Kind("Several GPUs", bars.efficiency, "`torch-conv bench scaling` or benchmarks/scaling.py"),
    Kind("Share of the copy by family and dtype", maps.heat, "`torch-conv bench filter2d` or another of its kind"),
)
READING = (
    "<em>Of copy</em> is the time of a plain copy of the same bytes over the time of the call: 100 % is as fast as "
    "memory can be read and written once; of images so small that launching the copy takes most of its time it is not "
    "said. <em>Of FMA</em> is the share of the float32 multiply-adds that the GPU's "
    "highest clock allows. <em>×</em> is the time of the fastest rival over ours: above 1 ours is faster. All ratios "
    "are of times from one run."
)


def made(documents: Sequence[Document], drawn: Callable[[], object] = lambda: None) -> str:
    figures = []
    for kind in FIGURES:
        figures.append((kind, "".join(map(shown, kind.draw(documents)))))
        drawn()
    parts = [("summary", "Summary", summary(documents))]
    for i, (kind, found) in enumerate(figures):
        if found:
            parts.append((f"figure-{i}", kind.title, found))
    missing = [kind for kind, found in figures if not found]
    if missing:
        parts.append(("missing", "Figures without data", absent(missing)))
    for i, document in enumerate(documents):
        parts.append((f"file-{i}", document.title, source(document) + tables(document)))
    contents = "".join(f'<li><a href="#{anchor}">{markup.text(title)}</a></li>\n' for anchor, title, _ in parts)
    body = "".join(f'<h2 id="{anchor}">{markup.text(title)}</h2>\n{content}' for anchor, title, content in parts)
    days = sorted({document.date for document in documents} - {""})
    when = f" from results of {' to '.join(dict.fromkeys([days[0], days[-1]]))}" if days else ""
    return (
        "<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
        '<meta name=viewport content="width=device-width, initial-scale=1">\n'
        f"<title>torch_conv: benchmarks</title>\n<style>\n{markup.STYLE}</style>\n</head>\n<body>\n"
        f"<h1>torch_conv: benchmarks</h1>\n<p>Made by torch-conv report {markup.text(__version__ + when)}.</p>\n"
        f"<p>{READING}</p>\n<nav>\n<ul>\n{contents}</ul>\n</nav>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )


def shown(figure: Figure) -> str:
    caption = markup.text(figure.caption)
    box = "box wide" if figure.wide else "box"
    return f'<figure><div class="{box}" tabindex=0>{figure.svg()}</div><figcaption>{caption}</figcaption></figure>\n'


def absent(kinds: Sequence[Kind]) -> str:
    lines = "".join(f"<li>{markup.text(kind.title)}: {markup.text(kind.source)}</li>\n" for kind in kinds)
    return f"{markup.paragraph('The files given hold nothing for these. What would bring them:')}<ul>\n{lines}</ul>\n"


def source(document: Document) -> str:
    meta = document.meta
    found = [("torch", meta.get("torch")), ("CUDA", meta.get("cuda")), ("cuDNN", meta.get("cudnn"))]
    found += [("driver", meta.get("driver")), ("CPU", meta.get("cpu")), ("CPU threads", meta.get("threads"))]
    found += [("rounds", meta.get("rounds")), ("measured", meta.get("date"))]
    said = [f"{name} {value}" for name, value in found if value is not None]
    said += [f"commit{'s' * (len(document.commits) > 1)} {', '.join(document.commits)}"]
    return markup.paragraph(markup.text(f"{document.path.name}: {'; '.join(said)}."), note=True)
