"""The built module and the import: stable ABI, no build paths, nothing needed but torch."""

import ctypes
import doctest
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_conv

PACKAGE = Path(torch_conv.__file__).parent
ROOT = PACKAGE.parent
MODULE = PACKAGE / "_C.abi3.so"


def run_python(code, cwd):
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}"],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_there_is_one_module():
    assert list(PACKAGE.glob("**/*.so")) == [MODULE]


@pytest.mark.thorough
def test_the_path_that_programs_without_python_load(tmp_path):
    assert torch_conv.library_path() == str(MODULE.resolve())
    code = (
        "import torch\n"
        f"torch.ops.load_library({torch_conv.library_path()!r})\n"
        "result = torch.ops.torch_conv.filter2d(torch.ones(3, 3), torch.ones(1, 2))\n"
        "print(result.sum().item(), 'torch_conv' in sys.modules)"
    )
    done = run_python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "18.0 False\n"
    examples = doctest.testmod(torch_conv.dispatch.library, extraglobs={"torch_conv": torch_conv})
    assert examples.attempted == 2 and not examples.failed


def test_no_unstable_torch_symbol():
    """at::Tensor, c10::Error and their like change from release to release."""
    data = MODULE.read_bytes()
    for symbol in (b"_ZN2at6Tensor", b"_ZNK2at6Tensor", b"_ZN2at10TensorBase", b"_ZNK2at10TensorBase", b"N3c105ErrorE"):
        assert symbol not in data, symbol


@pytest.mark.skipif(not shutil.which("nm"), reason="nm, which comes with a compiler, is not there")
def test_undefined_symbols_are_stable():
    """Functions of the C and C++ libraries and of torch's C shims, the stable ABI; of Python nothing at all."""
    done = subprocess.run(["nm", "-D", "--undefined-only", MODULE], capture_output=True, text=True, check=True)
    taken = {line.split()[-1].split("@")[0] for line in done.stdout.splitlines() if " U " in line}
    system = ctypes.CDLL("libstdc++.so.6")  # libraries that the module needs: C and mathematics
    others = {name for name in taken if not hasattr(system, name)}
    headers = Path(torch.__file__).parent / "include" / "torch" / "csrc"
    shims = [*headers.glob("stable/c/shim.h"), *headers.glob("inductor/aoti_torch/*/*shim*.h")]
    declared = {name for shim in shims for name in re.findall(r"\b(?:aoti_)?torch_\w+", shim.read_text())}
    assert "torch_library_impl" in others  # nm was understood
    assert others <= declared
    torch_cpu = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    assert not [name for name in others if not hasattr(torch_cpu, name)]  # libraries of a torch without CUDA
    weak = {line.split()[-1] for line in done.stdout.splitlines() if " w " in line and "torch" in line}
    assert weak == {"torch_exception_get_what_without_backtrace"}  # of torch 2.13: it may be missing


def test_the_module_brings_its_conversions_of_float16():
    """Symbols of a shared libgcc have the version GCC_12.0.0, which Red Hat Enterprise Linux 9 and its like lack."""
    assert b"GCC_12" not in MODULE.read_bytes()


def test_no_build_path_in_what_was_built():
    for built in [MODULE, *PACKAGE.glob("kernels/*/*")]:
        data = built.read_bytes()
        for path in {f"{ROOT}/csrc", f"{ROOT}/build", str(Path(torch.__file__).parent)}:
            assert path.encode() not in data, (built, path)


def test_the_module_needs_no_cuda_library_and_no_python():
    """The module loads with a torch without CUDA; the first call that needs the driver or the compiler looks for it."""
    data = MODULE.read_bytes()
    for library in (b"libcudart", b"libc10_cuda", b"libcuda.so\0", b"libtorch_python", b"libpython"):
        assert library not in data, library


@pytest.mark.thorough
def test_import_needs_nothing_but_torch(tmp_path):
    """Test and command-line packages stay out of an import."""
    code = (
        "import torch_conv\n"
        "heavy = {'matplotlib', 'kornia', 'cv2', 'scipy', 'skimage', 'torchvision', 'rich', 'tqdm', 'pytest'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    alone = run_python("import torch\nprint(sorted({'scipy', 'rich', 'tqdm'} & set(sys.modules)))", tmp_path)
    done = run_python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == alone.stdout


@pytest.mark.thorough
def test_a_checkout_that_is_not_built_says_so(tmp_path):
    """Python finds it before an installed package, if it is started there."""
    shutil.copytree(PACKAGE, tmp_path / "torch_conv", ignore=shutil.ignore_patterns("*.so", "sm_*"))
    done = subprocess.run([sys.executable, "-c", "import torch_conv"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith(
        f"ImportError: torch_conv is not built in {tmp_path}: run `make build`"
    )


@pytest.mark.thorough
def test_works_from_any_folder(tmp_path):
    done = run_python(
        "import torch, torch_conv\nprint(torch_conv.filter2d(torch.ones(4, 5), torch.ones(3, 3)).sum().item())",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == 180.0


@pytest.mark.thorough
def test_without_a_gpu(tmp_path):
    """The module loads quietly where there is no device."""
    code = (
        "import os; os.environ['CUDA_VISIBLE_DEVICES'] = ''\n"
        "import torch, torch_conv\n"
        "print(torch.cuda.is_available(), torch_conv.box_blur(torch.ones(4, 5), 3).sum().item())"
    )
    done = run_python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "20.0"]
    assert done.stderr == ""


def test_everything_public_has_a_docstring():
    for name in torch_conv.__all__:
        thing = getattr(torch_conv, name)
        if callable(thing):
            assert thing.__doc__, name


def test_functions_of_the_contract_exist():
    expected = """
        conv1d conv2d filter1d filter2d filter2d_separable gaussian_blur2d box_blur spatial_gradient sobel laplacian
        unsharp_mask difference_of_gaussians gaussian_laplace gaussian_sobel gaussian_downsample
        gaussian_gradient_magnitude3d structure_tensor thin_edges explain kernels prepare reference
    """
    assert set(expected.split()) <= set(dir(torch_conv))
    operators = "filter2d filter2d_separable box2d conv1d conv2d ladder2d gaussian_sobel2d gradient2d"
    for name in operators.split():
        assert hasattr(torch.ops.torch_conv, name)
    assert torch_conv.__version__.count(".") >= 2
