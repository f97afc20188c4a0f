"""The example programs that need nothing beyond what `make` installs."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent


def test_edges(tmp_path, device):
    for module in ("torchvision", "matplotlib", "skimage"):
        pytest.importorskip(module)
    picture = tmp_path / "edges.jpg"
    run = [sys.executable, "examples/edges.py", "--device", str(torch.device(device)), "--output", str(picture)]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    plans = done.stdout.splitlines()[:-1]
    assert [plan.split(":")[0] for plan in plans] == ["gaussian_sobel2d", "thin_edges2d", "structure_tensor2d"]
    assert all(" fused/" in plan and "launches 1;" in plan for plan in plans)
    assert picture.stat().st_size > 10_000
