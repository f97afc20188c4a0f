"""Gaussians and boxes over the size of the window, 3 to 255, for each dtype; README.md states the rules.

python benchmarks/blur.py [--device cuda] [--rows 'gaussian*f16*'] [--rounds 7] [--json FILE] [--list]

`report.py --figure` draws the times.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from torch_conv.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "blur", *sys.argv[1:]]))
