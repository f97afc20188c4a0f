"""dir(), `import *` and attributes: the public names of torch_conv and its modules, and those alone."""

import subprocess
import sys

import pytest

import torch_conv
from torch_conv import compat, distributed, functional, kernels, nn, reference, typing
from torch_conv.compat import causal_conv1d, cv2, scipy_ndimage

MODULES = [compat, distributed, functional, kernels, nn, reference, typing, causal_conv1d, cv2, scipy_ndimage]
SUBMODULES = {"compat", "distributed", "functional", "kernels", "nn", "reference", "typing"}
NAMES = {"SplitTensor", "explain", "library_path", "prepare", "split", *SUBMODULES, *functional.__all__}


def test_dir_of_the_package():
    assert {name for name in dir(torch_conv) if not name.startswith("__")} == NAMES
    assert {"__all__", "__doc__", "__file__", "__path__", "__version__"} <= set(dir(torch_conv))
    assert all(hasattr(torch_conv, name) for name in dir(torch_conv))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_dir_of_a_module(module):
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)


def test_star_and_attributes():
    found: dict[str, object] = {}
    exec("from torch_conv import *", found)
    assert found.keys() - {"__builtins__"} == set(torch_conv.__all__)
    for reachable in ("dispatch", "sharding", "autograd"):
        assert hasattr(torch_conv, reachable)
    with pytest.raises(AttributeError, match=r"^module 'torch_conv.compat' has no attribute 'kornia'$"):
        _ = compat.kornia


def test_facades_are_there_without_an_import():
    code = "import torch_conv; print(torch_conv.compat.cv2.GaussianBlur.__name__, torch_conv.nn.Sobel.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["GaussianBlur", "Sobel"]
