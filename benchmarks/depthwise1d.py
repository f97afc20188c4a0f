"""Depthwise 1-D convolutions against F.conv1d on this machine; README.md states the rules.

python benchmarks/depthwise1d.py [--device cuda] [--rows '*NLC'] [--rounds 7] [--json FILE] [--list]
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from torch_conv.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "depthwise1d", *sys.argv[1:]]))
