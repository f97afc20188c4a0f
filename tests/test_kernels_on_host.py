"""Kernels' own source, compiled for the host: what a machine without a GPU can know of them (tests/on_host/cuda.h)."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
COMPILER = shutil.which(os.environ.get("CXX", "g++"))


@pytest.mark.thorough
@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
@pytest.mark.parametrize(
    "program",
    [  # the slowest to compile first
        "separable_mma",
        "separable_mma_bytes",
        "depthwise_mma",
        "box",
        "mma",
        "chain",
        "separable_ring",
        "volume_ring",
        "mma_bits",
        "box_bytes",
        "streaming",
        "tile",
        "separable_volumes",
        "separable_tile",
        "separable_typed_ring",
        "separable_lines",
        "line_buffers",
        "box_depth",
        "overlap_save",
        "combine",
        "weight_gradient",
        "long_rows",
        "deliver",
        "ladder",
    ],
)
def test_kernels(program, tmp_path):
    # The shims replace headers of csrc that need a GPU. weight_gradient needs none of them.
    shims = [f"-I{HERE / 'on_host' / 'shims'}"] if program != "weight_gradient" else []
    includes = [*shims, f"-I{HERE.parent / 'csrc'}", f"-I{HERE / 'on_host'}"]
    source, binary = HERE / "on_host" / f"{program}.cpp", tmp_path / program
    # -w: pragmas for nvcc. _FORTIFY_SOURCE, which some compilers define, refuses a longjmp to another stack. Plans hold
    # addresses of launch functions, which no program here has.
    flags = ["-std=c++20", "-O1", "-w", "-pthread", "-U_FORTIFY_SOURCE", "-Wl,--unresolved-symbols=ignore-all"]
    subprocess.run([COMPILER, *flags, *includes, source, "-o", binary], check=True)
    ran = subprocess.run([binary], capture_output=True, text=True, check=False)
    wrong = [line for line in ran.stdout.splitlines() if not line.endswith(": right")]
    assert ran.returncode == 0 and ran.stdout and not wrong, wrong or ran.stderr
