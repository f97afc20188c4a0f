"""Depthwise 2-D convolutions against F.conv2d on this machine; README.md states the rules.

python benchmarks/depthwise.py [--device cuda] [--rows '*NHWC'] [--rounds 7] [--json FILE] [--list]
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from torch_conv.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "depthwise", *sys.argv[1:]]))
