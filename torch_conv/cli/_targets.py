"""Where `torch-conv filter` writes: one file, files of a folder, or standard output. All is checked before any work."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from torch_conv.bench.files import check_file, check_folder, descriptor
from torch_conv.bench.usage import UsageError
from torch_conv.cli._images import FORMS, STANDARD, check_form
from torch_conv.cli._pictures import form_of


def targets_of(sources: Sequence[Path], output: str, form: str | None, force: bool) -> list[Path]:
    """A target for each source; STANDARD is standard output.

    Args:
        sources: the inputs; STANDARD is standard input.
        output: a file, `-`, or a folder: where there is one, behind a last slash, and for several sources.
        form: the format of all targets; without it, a name or its source says which.
        force: whether targets may exist.
    """
    if output == "-" or descriptor(Path(output)) == 1:
        if len(sources) > 1:
            raise UsageError(f"the output of {len(sources)} inputs must be a folder, got {output}")
        if sys.stdout.isatty():
            raise UsageError("standard output is a terminal: the output must be a file or a pipe")
        return [STANDARD]
    if len(sources) > 1 or output.endswith("/") or os.path.isdir(output):
        return _in_folder(sources, output, form, force)
    target = Path(output)
    check_form(target, form)
    check_file(target, force)
    return [target]


def _in_folder(sources: Sequence[Path], output: str, form: str | None, force: bool) -> list[Path]:
    folder = Path(output)
    check_folder(folder)
    is_there = os.path.isdir(folder)
    if not is_there and not output.endswith("/"):
        raise UsageError(f"there is no folder {output}: {output}/ makes it")
    targets: dict[Path, Path] = {}
    for source in sources:
        if source is STANDARD:
            raise UsageError(f"standard input has no name for a file: the output must be a file or -, got {output}")
        target = folder / _name_of(source, form)
        if target in targets:
            raise UsageError(f"{targets[target]} and {source} would both become {target}")
        targets[target] = source
        if is_there:
            check_file(target, force)
    return list(targets)


def _name_of(source: Path, form: str | None) -> str:
    """The source's name, which ends otherwise where the source's format is not written or is not `form`."""
    named = FORMS.get(source.suffix.lower())
    if named is not None and form in (None, named):
        return source.name
    if form is None:
        try:
            with source.open("rb") as file:
                form = form_of(file.read(16))
        except OSError:  # which reading refuses later
            form = "png"
    return f"{source.stem}.{form}"
