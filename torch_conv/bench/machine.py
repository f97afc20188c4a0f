"""The machine and the versions that a file of results names."""

from __future__ import annotations

import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch


def metadata(device: torch.device, rounds: int) -> dict[str, Any]:
    cuda = device.type == "cuda"
    root = Path(__file__).resolve().parents[2]
    checkout = (root / "csrc").is_dir()
    return {
        "commit": first_line("git", "-C", str(root), "describe", "--always", "--dirty") if checkout else None,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name(device) if cuda else None,
        "driver": first_line("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader") if cuda else None,
        "cuda": torch.version.cuda if cuda else None,
        "cudnn": torch.backends.cudnn.version() if cuda else None,
        "cpu": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
        "threads": torch.get_num_threads(),
        "dtype": "float32",
        "rounds": rounds,
    }


def first_line(*command: str) -> str | None:
    """The first line that a command prints, or None where the command is missing or fails."""
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return next(iter(done.stdout.splitlines()), None)
