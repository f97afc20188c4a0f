"""Where torch_conv does not run, pip and the import say so in one sentence."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import torch_conv

PACKAGE = Path(torch_conv.__file__).parent
SETUP = PACKAGE.parent / "setup.py"


def run_python(folder, code, platform=""):
    """`platform` is what sysconfig.get_platform() says, which names wheels, too."""
    environment = {**os.environ, **({"_PYTHON_HOST_PLATFORM": platform} if platform else {})}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(not SETUP.exists(), reason="not a checkout")
@pytest.mark.parametrize("platform", ["win-amd64", "macosx-14.0-arm64", "linux-aarch64"])
def test_a_build_elsewhere_says_so_before_it_asks_for_torch(platform):
    """pip prints what setup.py says."""
    code = "import runpy, sys; sys.modules['torch'] = None; runpy.run_path('setup.py')"
    done = run_python(SETUP.parent, code, platform)
    assert done.returncode == 1
    assert done.stderr == f"torch_conv: runs on Linux on x86-64 (linux-x86_64), this is {platform}\n"


@pytest.mark.skipif(not SETUP.exists(), reason="not a checkout")
def test_a_build_by_an_old_setuptools_says_so_before_it_imports_what_that_lacks():
    code = (
        "import runpy, setuptools, sys; setuptools.__version__ = '65.5.0'\n"
        "sys.modules['setuptools.command.bdist_wheel'] = None; runpy.run_path('setup.py')"
    )
    done = run_python(SETUP.parent, code)
    assert done.returncode == 1
    assert done.stderr == "torch_conv: building needs setuptools 77 or newer, this is setuptools 65.5.0\n"


@pytest.mark.thorough
def test_an_import_elsewhere_says_so(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "torch_conv", ignore=shutil.ignore_patterns("*.so", "sm_*"))
    done = run_python(tmp_path, "import torch_conv", "macosx-14.0-arm64")
    assert done.stderr.splitlines()[-1] == (
        "ImportError: torch_conv: runs on Linux on x86-64 (linux-x86_64), this is macosx-14.0-arm64"
    )


@pytest.mark.thorough
def test_a_torch_for_rocm_is_warned_of_and_filters_on_the_cpu():
    """The warning names the line that imports."""
    code = (
        "import torch; torch.version.hip = '6.4'\n"
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    import torch_conv\n"
        "(warning,) = [w for w in caught if 'torch_conv' in str(w.message)]\n"
        "print(warning.category.__name__, warning.filename, warning.lineno)\n"
        "print(warning.message)\n"
        "print(torch_conv.box_blur(torch.ones(4, 5), 3).sum().item())"
    )
    done = run_python(PACKAGE.parent, code)
    assert done.stdout.splitlines() == [
        "RuntimeWarning <string> 5",
        "torch_conv: this torch is built for ROCm, where torch_conv takes tensors on the CPU only",
        "20.0",
    ], done.stderr
