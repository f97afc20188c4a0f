"""Helpers of the tests of the kernel store: files of kernels, damages to them, and fresh processes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch

import torch_conv

ROOT = Path(torch_conv.__file__).parent.parent
OPS = torch.ops.torch_conv
COLUMN = "kernels/direct2d/column/kernel.cuh direct2d::direct2d_column<float, 4, false, 3>"
UPLOAD = "runtime/kernel_upload.cuh cuda::upload_chunk"


def report():
    return OPS._store_report()


def run_python(code, **variables):
    """The output of a fresh process; a variable of None is not set there."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\nimport torch, torch_conv\n{code}"],
        env={name: value for name, value in environment.items() if value is not None},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(folder, *kernels):
    return [Path(path) for path in OPS._build_kernels(str(folder), 90, list(kernels))]


def state(path):
    """Tells whether a file was written again."""
    return path.stat().st_ino, path.stat().st_mtime_ns


def flipped(at):
    def flip(path):
        data = bytearray(path.read_bytes())
        data[int(at * (len(data) - 1))] ^= 4
        path.write_bytes(data)

    return flip


def cut(keep):
    def truncate(path):
        os.truncate(path, int(keep * path.stat().st_size))

    return truncate


def of_another_kernel(path):
    (other,) = build(path.parent.parent / "other", UPLOAD)
    shutil.copy(other, path)


def longer(path):
    path.write_bytes(path.read_bytes() + b"\0")


def sparse(path):
    os.truncate(path, 1 << 40)


DAMAGE = {
    "empty": cut(0),
    "half of it": cut(0.5),
    "without its last bytes": cut(0.9999),
    "longer": longer,
    "a bit of the description": flipped(0.001),
    "a bit of the code": flipped(0.5),
    "a bit of the hash": flipped(1),
    "another kernel": of_another_kernel,
    "a terabyte of nothing": sparse,
}
