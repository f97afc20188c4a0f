"""3-D filters against torch, cupyx, SciPy and kornia on this machine; README.md states the rules.

python benchmarks/filter3d.py [--device cuda] [--rows 'gaussian*'] [--rounds 7] [--json FILE] [--list]
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from torch_conv.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "filter3d", *sys.argv[1:]]))
