"""2-D filters against torch, torchvision, cupyx and OpenCV on this machine; README.md states the rules.

python benchmarks/filter2d.py [--device cuda] [--rows 'gaussian*'] [--rounds 7] [--json FILE] [--list]
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from torch_conv.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "filter2d", *sys.argv[1:]]))
