"""The time of filter2d over the size of its window, 3 to 255, by algorithm; README.md states the rules.

python benchmarks/large_windows.py [--device cuda] [--rows 'dense'] [--rounds 7] [--json FILE] [--list]

'dense' windows have no structure, 'rank2' windows are sums of two outer products. `report.py --figure` draws the times.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from torch_conv.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "large_windows", *sys.argv[1:]]))
