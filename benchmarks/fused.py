"""Fused pipelines against the chains that they replace, on this machine; README.md states the rules.

The share of the copy is here the share of the byte floor: one read of the image and one write of all results, at the
rate of the copy.

python benchmarks/fused.py [--device cuda] [--rows 'gaussian_sobel*'] [--rounds 7] [--json FILE] [--list]
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from torch_conv.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "fused", *sys.argv[1:]]))
