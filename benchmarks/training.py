"""Steps of training, forward and all gradients, on our kernels and on torch's; README.md states the rules.

python benchmarks/training.py [--only layers,models,weights] [--json FILE]

`weights`: the gradients in weight and bias alone, from CUDA graphs. `layers`: a depthwise convolution's whole step,
eager and from a CUDA graph. `models`: a whole model's step and its inference, before and after `replace_depthwise`,
likewise; float16 is autocast. torch's times are with cudnn.benchmark on and TF32 off.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from torch_conv.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "training", *sys.argv[1:]]))
