"""The plans of thousands of calls are those of `plan_sweep.txt.xz`; `plan_sweep.py` describes how to write it."""

import re
from pathlib import Path

import plan_sweep
import pytest

CSRC = Path(__file__).parent.parent / "csrc"


@pytest.mark.thorough
def test_plans_are_those_of_the_file():
    """One test, because the sweep takes ten seconds. A kernel that no call takes could change unseen."""
    found = list(plan_sweep.blocks())
    lines = plan_sweep.differences(found, plan_sweep.recorded())
    assert not lines, "\n".join(lines[:60])
    if not CSRC.exists():
        return  # an installed package has no sources
    sources = "\n".join(path.read_text() for path in CSRC.rglob("*.cuh"))
    kernels = set(re.findall(r"__global__[^;]*?(\w+)\(const ", sources))
    without_plan = {name for name in kernels if name.startswith(("ladder", "upload", "copy", "deliver"))}
    # These take the place of kernels that are not compiled yet. Tests pin their variants.
    without_plan |= {name for name in kernels if name.endswith(("mma_general", "weight_gradient_general"))}
    assert kernels - without_plan == set(re.findall(r"; kernel \w+::(\w+)", "\n".join(found)))


def test_a_changed_plan_shows():
    recorded = plan_sweep.recorded()
    changed = [block.replace("128 threads", "160 threads") for block in recorded]
    lines = plan_sweep.differences(changed, recorded)
    assert any(line.startswith("+") and "160 threads" in line for line in lines)
    assert plan_sweep.differences(recorded, recorded) == []
