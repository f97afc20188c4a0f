"""The source distribution holds all files that a build reads, and a wheel all that were built, with types."""

import ast
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import torch

import torch_conv
from torch_conv.cli import info

ROOT = Path(torch_conv.__file__).parent.parent

pytestmark = pytest.mark.skipif(not (ROOT / "setup.py").exists(), reason="not a checkout")
slow = pytest.mark.slow


def run_python(folder, *arguments, **variables):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def run_setup(folder, *arguments):
    done = run_python(folder, "setup.py", "-q", *arguments)
    assert done.returncode == 0, done.stderr


def requirements(name):
    """The lines of a list without its comments: "numpy>=2,<3"."""
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_the_version_is_written_once():
    """In torch_conv/__init__.py, which pyproject.toml names; CHANGELOG.md begins with it."""
    assert 'attr = "torch_conv.__version__"' in (ROOT / "pyproject.toml").read_text()
    assert info.facts()[0] == ("torch_conv", torch_conv.__version__)
    headings = re.findall(r"^## \[(\d.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == torch_conv.__version__


def test_pip_builds_with_what_make_builds_with():
    text = (ROOT / "pyproject.toml").read_text()
    (line,) = re.findall(r"^requires = (\[.*\])$", text, re.MULTILINE)
    assert sorted(ast.literal_eval(line)) == sorted(requirements("build.txt"))


def imported(body):
    """The packages that statements import when they run, without imports inside functions."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.split(".")[0]
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from imported(node.body)


def test_the_extra_test_brings_what_tests_import():
    """`pip install .[test]` is enough to collect the tests; the packages of importorskip may be absent."""
    tests = list((ROOT / "tests").glob("*.py"))
    ours = {path.stem for folder in ("tests", "benchmarks") for path in (ROOT / folder).glob("*.py")} | {"torch_conv"}
    wanted = {name for path in tests for name in imported(ast.parse(path.read_text()).body)}
    brought = {re.split(r"[^\w.-]", line)[0].lower() for line in requirements("test.txt")} | {"torch"}
    distributions = importlib.metadata.packages_distributions()
    absent = wanted - sys.stdlib_module_names - ours
    assert absent >= {"pytest", "torch"}
    assert not {name for name in absent if not brought & {d.lower() for d in distributions.get(name, ())}}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    (folder / "egg").mkdir()
    run_setup(ROOT, "egg_info", "--egg-base", folder / "egg", "sdist", "-d", folder)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "out", filter="data")
    return next((folder / "out").iterdir())


def files_of(root, *folders):
    paths = [path for folder in folders for path in (root / folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path for path in paths if path.suffix not in (".pyc", ".pyo")}


@slow
def test_the_source_distribution_holds_what_a_build_reads(unpacked):
    expected = files_of(ROOT, "csrc", "requirements", "tests", "examples")
    assert {name for name in expected if name.endswith(".txt")} >= {"csrc/ahead.txt", "requirements/cli.txt"}
    found = files_of(unpacked, "csrc", "requirements", "tests", "examples")
    assert set(found) == set(expected)
    assert all(found[name].read_bytes() == path.read_bytes() for name, path in expected.items())
    for name in (
        "setup.py",
        "pyproject.toml",
        "Makefile",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "torch_conv/py.typed",
    ):
        assert (unpacked / name).is_file(), name
    assert f"\nVersion: {torch_conv.__version__}\n" in (unpacked / "PKG-INFO").read_text()


@slow
def test_the_source_distribution_holds_nothing_that_is_built(unpacked):
    names = files_of(unpacked, ".")
    assert not [name for name in names if name.endswith((".so", ".kernel", ".whl"))]


@slow
def test_the_table_of_sources_can_be_made(unpacked, tmp_path):
    texts = []
    for folder in (ROOT, unpacked):
        spec = importlib.util.spec_from_file_location("ahead", folder / "csrc" / "ahead.py")
        ahead = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(ahead)
        ahead.write_sources(tmp_path / "sources.cpp")
        texts.append((tmp_path / "sources.cpp").read_text())
    assert texts[0] == texts[1]


@slow
def test_a_wheel_holds_the_package_and_the_kernels_that_were_built(unpacked, tmp_path):
    """Files in the place where a build puts them, one of them left there by an earlier build; nothing is compiled."""
    built = tmp_path / "built" / "torch_conv"
    (built / "kernels" / "sm_90").mkdir(parents=True)
    (built / "_C.abi3.so").write_bytes(b"module")
    (built / "kernels" / "sm_90" / "0.kernel").write_bytes(b"kernel")
    (built / "gone.py").write_text("")
    (unpacked / "setup.cfg").write_text(f"[build]\nbuild_lib = {tmp_path / 'built'}\n")
    run_setup(unpacked, "build_py", "bdist_wheel", "--skip-build", "-d", tmp_path, "--bdist-dir", tmp_path / "bdist")
    (wheel,) = tmp_path.glob("*-py3-none-linux_x86_64.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("torch_conv/")}
    python = {name for name in files_of(ROOT, "torch_conv") if name.endswith((".py", "py.typed"))}
    assert names == python | {"torch_conv/_C.abi3.so", "torch_conv/kernels/sm_90/0.kernel"}


@slow
def test_a_build_without_a_compiler_says_so():
    done = run_python(ROOT, "setup.py", "-q", "build_ext", CXX="no-such-compiler -m64")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "torch_conv: there is no C++ compiler (no-such-compiler -m64): on Debian and Ubuntu, apt install g++"
    )


@slow
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            "sys.modules['torch'] = None",
            "torch_conv: torch is not installed, and a build without isolation takes what is there: ",
        ),
        (
            "torch.__version__ = '2.10.1+cpu'",
            "torch_conv: building needs torch 2.11 or newer, this is torch 2.10.1+cpu",
        ),
        (
            "setuptools.__version__ = '65.5.0'",
            "torch_conv: building needs setuptools 77 or newer, this is setuptools 65.5.0",
        ),
    ],
)
def test_a_build_without_isolation_says_what_is_missing(given, sentence):
    code = (
        f"import runpy, setuptools, sys, torch; {given}; sys.argv[1:] = ['-q', 'build_ext']; runpy.run_path('setup.py')"
    )
    done = run_python(ROOT, "-c", code)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(sentence)


# A user's file; mypy must object to the lines that say so, and to no other.
PROGRAM = """
import torch
import torch_conv
from torch_conv import kernels, nn
from torch_conv.compat import torchvision as vision

image = torch.rand(1, 3, 16, 16)
blurred: torch.Tensor = torch_conv.gaussian_blur2d(image, 5, 1.5)
sharp: torch.Tensor = torch_conv.filter2d(blurred, kernels.sharpen(), border_type="replicate")
shards: torch_conv.SplitTensor = torch_conv.box_blur(torch_conv.split(image, ["cpu", "cpu"]), (3, 5))
layer: nn.GaussianBlur2d = nn.GaussianBlur2d((5, 5), (1.5, 1.5))
depthwise: torch.Tensor = torch_conv.conv2d(image, torch.rand(3, 1, 3, 3), padding=1, groups=3)
why: str = str(torch_conv.explain(torch_conv.box_blur, image, 200))
same: torch.Tensor = vision.gaussian_blur(image, [5, 5])
torch_conv.gaussian_blur2d("photo.jpg", 5, 1.5)  # wrong: a name for an image
torch_conv.filter2d(image)  # wrong: no window
torch_conv.filter2d(image, image, border_type=3)  # wrong: a number for a word
torch_conv.gauss(image)  # wrong: no such function
number: int = torch_conv.sobel(image)  # wrong: a tensor
"""


@slow
def test_mypy_checks_the_program_of_a_user(tmp_path):
    """mypy --strict against the package in pip's folder."""
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    venv.create(tmp_path / "venv", with_pip=False)
    (site,) = (tmp_path / "venv").glob("lib/python3*/site-packages")
    (site / "torch_conv").symlink_to(ROOT / "torch_conv")
    (site / "torch.pth").write_text(str(Path(torch.__file__).parent.parent))
    options = ["--strict", "--python-executable", tmp_path / "venv" / "bin" / "python", "--hide-error-context"]
    done = run_python(tmp_path, "-m", "mypy", *options, "--cache-dir", tmp_path / "cache", "program.py")
    objected = {int(line) for line in re.findall(r"^program\.py:(\d+): error: ", done.stdout, re.MULTILINE)}
    wrong = {i for i, line in enumerate(PROGRAM.splitlines(), 1) if "# wrong" in line}
    assert objected == wrong, done.stdout + done.stderr
    assert f"Found {len(wrong)} errors in 1 file" in done.stdout
