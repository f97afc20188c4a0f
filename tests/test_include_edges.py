"""Which folders of csrc may include which: a call goes down this list and never up."""

import re
from collections.abc import Iterator

import pytest
from conftest import ROOT

CSRC = ROOT / "csrc"
ALLOWED = {
    "api": {"dispatch", "sharding", "graph", "kernels", "tensors", "runtime", "core"},
    "dispatch": {"sharding", "graph", "kernels", "tensors", "core"},
    "sharding": {"graph", "tensors", "runtime", "core"},
    "graph": {"tensors", "runtime", "core"},
    "kernels": {"runtime", "core"},
    "tensors": {"core"},
    "runtime": {"core"},
    "core": set(),
}


def includes() -> Iterator[tuple[str, str]]:
    for path in sorted(CSRC.rglob("*")):
        if path.suffix in (".h", ".cpp", ".cuh") and path.relative_to(CSRC).parts[0] in ALLOWED:
            for included in re.findall(r'^#include "(.+)"$', path.read_text(), re.MULTILINE):
                yield path.relative_to(CSRC).as_posix(), included


@pytest.mark.parametrize("folder", ALLOWED)
def test_a_folder_includes_none_above_it(folder):
    edges = {(file, included) for file, included in includes() if file.startswith(f"{folder}/")}
    assert edges or folder == "core"
    assert not {edge for edge in edges if edge[1].partition("/")[0] not in ALLOWED[folder] | {folder}}


def test_a_kernel_family_includes_no_other():
    for file, included in includes():
        if file.startswith("kernels/") and included.startswith("kernels/"):
            family, other = file.split("/")[1], included.split("/")[1]
            assert other in {family, "plan_cpu.h"}, f"{file} includes {included}"
