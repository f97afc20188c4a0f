"""Kernels' own source, compiled for the host: what a machine without a GPU can know of them (tests/on_host/cuda.h)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
COMPILER = shutil.which(os.environ.get("CXX", "g++"))


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
@pytest.mark.parametrize(
    "program",
    [
        "weight_gradient",
        "products",
        "products_bits",
        "separable_products",
        "separable_ring",
        "separable_tile",
        "separable_volumes",
        "volume_ring",
        "tile",
        "long_rows",
        "overlap_save",
        "combine",
        "deliver",
        "chain",
        "march",
        "box",
        "box_bytes",
        "box_depth",
        "ladder",
    ],
)
def test_kernels(program, tmp_path):
    # What a host has not stands before what csrc has; weight_gradient needs none of it.
    shims = [f"-I{HERE / 'on_host' / 'tensor_cores'}"] if program != "weight_gradient" else []
    includes = [*shims, f"-I{HERE.parent / 'csrc'}", f"-I{HERE / 'on_host'}"]
    source, binary = HERE / "on_host" / f"{program}.cpp", tmp_path / program
    # -w: pragmas for nvcc. _FORTIFY_SOURCE, which some compilers define, refuses a longjmp to another stack.
    flags = ["-std=c++20", "-O1", "-w", "-pthread", "-U_FORTIFY_SOURCE"]
    subprocess.run([COMPILER, *flags, *includes, source, "-o", binary], check=True)
    ran = subprocess.run([binary], capture_output=True, text=True, check=False)
    wrong = [line for line in ran.stdout.splitlines() if not line.endswith(": right")]
    assert ran.returncode == 0 and ran.stdout and not wrong, wrong or ran.stderr
