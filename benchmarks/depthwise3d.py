"""Depthwise 3-D convolutions against F.conv3d on this machine; README.md states the rules.

python benchmarks/depthwise3d.py [--device cuda] [--rows '*NDHWC'] [--rounds 7] [--json FILE] [--list]
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from torch_conv.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "depthwise3d", *sys.argv[1:]]))
