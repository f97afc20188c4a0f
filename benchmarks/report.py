"""Writes the measured tables into docs/ and README.md, between their markers, from benchmarks/results/.

python benchmarks/report.py            # rewrite
python benchmarks/report.py --check    # only say whether the pages are up to date (exit status 1 if not)
python benchmarks/report.py --figure   # draw the figures as well, into docs/ (matplotlib)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":  # the report's files work where nothing is built, the package's own __init__ does not
    sys.modules["torch_conv"] = ModuleType("torch_conv")
    sys.modules["torch_conv"].__path__ = [str(ROOT / "torch_conv")]
    sys.path.append(str(ROOT))  # for torch_conv_cli

from report_ages import measured, older_than_kernels  # noqa: E402
from report_figures import FIGURES  # noqa: E402
from report_headline import headline  # noqa: E402
from report_scaling import scaling_tables  # noqa: E402
from report_tables import tables  # noqa: E402
from report_textbook import textbook  # noqa: E402

from torch_conv.bench.documents import Document, files_of, read  # noqa: E402

PAGES = ROOT / "docs" / "benchmarks"
BEGIN, END = "<!-- {}: begin, written by benchmarks/report.py -->", "<!-- {}: end -->"

# The beginning of a benchmark's headings, where it is not the machine.
TITLES = {
    "large_windows": "Windows from 3x3 to 255x255, ",
    "blur": "Gaussians and boxes from 3x3 to 255x255, ",
    "filter3d": "Volumes, ",
    "depthwise": "Depthwise 2-D convolutions, ",
    "depthwise1d": "Depthwise 1-D convolutions, ",
    "depthwise3d": "Depthwise 3-D convolutions, ",
    "fused": "Fused pipelines, ",
    "models": "Models, ",
    "training": "Training, ",
}
# The sentence above a benchmark's table, where there is one.
SENTENCES = {
    "models": "Torch's time, ours with the depthwise layers swapped, and their ratio; ",
    "training": (
        "Torch's time, ours, and their ratio; a layer's step is its forward and the gradients of image, weight and "
        "bias, from a CUDA graph; NHWC of a signal: its channels innermost; "
    ),
}
# The benchmarks of each page, between markers of the page's name.
PLACES = {
    "filters2d": ["filter2d"],
    "large_windows": ["large_windows"],
    "blur": ["blur"],
    "volumes": ["filter3d"],
    "depthwise": ["depthwise", "depthwise1d", "depthwise3d"],
    "models": ["models", "training"],
    "fused": ["fused"],
    "several_gpus": ["scaling"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; status 1 if a page is out of date")
    parser.add_argument("--figure", action="store_true", help="draw the figures in docs/ first")
    args = parser.parse_args()
    documents = [document for path in files_of([ROOT / "benchmarks" / "results"]) for document in read(path)]
    if args.figure:
        for name, draw in FIGURES.items():
            figure = next(draw(documents), None)
            if figure is None:
                raise SystemExit(f"report: no results to draw docs/{name}.png from")
            (ROOT / "docs" / f"{name}.png").write_bytes(figure.png())
    stale = []
    written = {PAGES / f"{place}.md": (place, page(documents, names)) for place, names in PLACES.items()}
    written[ROOT / "README.md"] = ("headline", headline(documents))
    written[ROOT / "docs" / "textbook.md"] = ("textbook", textbook(documents))
    for path, (place, content) in written.items():
        text = path.read_text()
        updated = replaced(text, place, content)
        if updated is None:
            print(f"report: {path.relative_to(ROOT)} must hold the two markers of '{place}'", file=sys.stderr)
            return 1
        if updated != text:
            stale.append(str(path.relative_to(ROOT)))
            if not args.check:
                path.write_text(updated)
    if args.check:
        for line in older_than_kernels(documents):
            print(f"report: {line}", file=sys.stderr)
        for name in stale:
            print(f"report: {name} is out of date: run python benchmarks/report.py", file=sys.stderr)
    return 1 if args.check and stale else 0


def replaced(text: str, place: str, content: str) -> str | None:
    """The text with the content between this place's markers; None where they are missing."""
    begin, end = BEGIN.format(place), END.format(place)
    head, found, rest = text.partition(begin)
    _, stop, tail = rest.partition(end)
    return f"{head}{begin}\n\n{content}\n\n{end}{tail}" if found and stop else None


def page(documents: Sequence[Document], benchmarks: Sequence[str]) -> str:
    """The results of these benchmarks in Markdown."""
    chosen = (document for benchmark in benchmarks for document in documents if document.benchmark == benchmark)
    return "\n\n".join(part for document in chosen for part in section(document))


def section(document: Document) -> list[str]:
    """Where and when a document was measured, and its tables."""
    meta, benchmark = document.meta, document.benchmark
    machine, libraries = f"{document.machine}, {meta['threads']} threads", f"torch {meta['torch']}"
    if document.on_gpu:
        machine = f"{document.machine}, driver {meta['driver']}"
        if benchmark not in (*SENTENCES, "scaling"):
            libraries += f", cuDNN {meta['cudnn']}"
    heading = f"## {TITLES.get(benchmark, '')}{machine}"
    found = scaling_tables(document) if benchmark == "scaling" else [tables(document)]
    return [heading, f"{SENTENCES.get(benchmark, '')}{libraries}; {measured(document)}.", *found] if found else []


if __name__ == "__main__":
    sys.exit(main())
