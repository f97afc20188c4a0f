"""The plans of thousands of calls are those of `plan_sweep.txt.xz`; `plan_sweep.py` says how to write it anew."""

from __future__ import annotations

import re
from pathlib import Path

import plan_sweep
import pytest


@pytest.fixture(scope="module")
def found() -> list[str]:
    return list(plan_sweep.blocks())


def test_plans_are_those_of_the_file(found):
    lines = plan_sweep.differences(found, plan_sweep.recorded())
    assert not lines, "\n".join(lines[:60])


def test_a_changed_plan_shows(found):
    changed = [re.sub(r"128 threads", "160 threads", block) for block in found]
    lines = plan_sweep.differences(changed, found)
    assert any(line.startswith("+") and "160 threads" in line for line in lines)


def test_every_kernel_is_in_the_sweep(found):
    """A kernel that no call of the sweep takes could change unseen."""
    csrc = Path(__file__).parent.parent / "csrc"
    if not csrc.exists():
        pytest.skip("an installed package has no sources")
    sources = "\n".join(path.read_text() for path in csrc.rglob("*.cuh"))
    kernels = set(re.findall(r"__global__[^;]*?(\w+)\(const ", sources))
    without_plan = {name for name in kernels if name.startswith(("ladder", "upload", "copy", "deliver"))}
    planned = set(re.findall(r"; kernel \w+::(\w+)", "\n".join(found)))
    assert kernels - without_plan == planned
