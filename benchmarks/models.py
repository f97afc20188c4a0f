"""Whole models before and after their depthwise layers run on our kernels; README.md states the rules.

python benchmarks/models.py [--models convnext_tiny,replk] [--batches 1,64] [--ways eager,graph,compile] [--json FILE]

Float16 on CUDA (float32 on the CPU), random weights, 224x224 images. torch's times are with cudnn.benchmark on.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from torch_conv.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "models", *sys.argv[1:]]))
