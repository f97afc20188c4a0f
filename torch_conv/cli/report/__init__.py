"""`torch-conv report`: one HTML page from files of results."""

from __future__ import annotations

import argparse
from pathlib import Path

from torch_conv.bench.files import check_file, write_file
from torch_conv.bench.usage import UsageError
from torch_conv.cli import add_force
from torch_conv_cli import printable


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "report",
        description="Make one HTML page with tables and figures from what `torch-conv bench ... --json` and the "
        "scripts of benchmarks/ write. The page needs no network, no script and no other file.",
    )
    parser.add_argument(
        "results", metavar="RESULTS", nargs="+", type=Path, help="files of results, or folders with *.json files"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, default=Path("report.html"), help="the page (default: report.html)"
    )
    add_force(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    check_file(args.output, args.force)
    from torch_conv.bench.documents import files_of, read
    from torch_conv.bench.formatting import counted
    from torch_conv.bench.progress import progress_bar
    from torch_conv.bench.usage import needed

    paths = files_of(args.results)
    if args.output.resolve() in [path.resolve() for path in paths]:
        raise UsageError(f"{args.output} is one of the results")
    display = progress_bar()
    needed("matplotlib.figure", "matplotlib")
    documents = [document for path in paths for document in read(path)]

    from torch_conv.cli.report import page

    with display as bar:
        task = bar.add_task("figures", total=len(page.FIGURES))
        content = page.made(documents, lambda: bar.advance(task))
    write_file(args.output, content.encode(), args.force)
    files = counted(len(paths), "file")
    print(f"{printable(args.output)}: {files} of results, {len(content.encode()) / 2**10:.0f} KiB")
