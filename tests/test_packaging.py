"""The source distribution holds all files that a build reads, and a wheel all that were built, with types."""

import ast
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

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


def test_the_citation_is_that_of_the_newest_version():
    text = (ROOT / "CITATION.cff").read_text()
    given = dict(re.findall(r"^([\w-]+): (.+)$", text, re.MULTILINE))
    version, date = re.findall(r"^## \[(\d.*?)\] - (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    assert (given["version"], given["date-released"]) == (version, date) and version == torch_conv.__version__
    assert f'\ndescription = "{given["abstract"]}"\n' in (ROOT / "pyproject.toml").read_text()


def test_the_documents_name_the_versions_of_the_classifiers():
    project, readme, install, support = (
        (ROOT / name).read_text() for name in ("pyproject.toml", "README.md", "docs/install.md", "docs/support.md")
    )
    pythons = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    first, last = pythons[0], pythons[-1]
    assert pythons == [f"3.{i}" for i in range(int(first[2:]), int(last[2:]) + 1)]
    assert f'requires-python = ">={first}"' in project
    (lowest,) = re.findall(r'^dependencies = \["torch>=(.*)"\]$', project, re.MULTILINE)
    assert f"Python {first} or newer and torch {lowest} or newer" in readme
    assert f"CPython {first} and {last}" in support
    (needed,) = re.findall(r"^\| torch \| .*$", install, re.MULTILINE)
    cudas = re.findall(r'"Environment :: GPU :: NVIDIA CUDA :: (\d+)"', project)
    assert cudas and lowest in needed and all(re.search(rf"\bCUDA\b.*\b{cuda}\b", needed) for cuda in cudas)


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
    ours = {path.stem for folder in ("tests", "benchmarks") for path in (ROOT / folder).glob("*.py")} | {
        "torch_conv",
        "torch_conv_cli",
    }
    wanted = {name for path in tests for name in imported(ast.parse(path.read_text()).body)}
    brought = {re.split(r"[^\w.-]", line)[0].lower() for line in requirements("test.txt")}
    brought |= {"torch", "typing_extensions"}  # which torch needs
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
    folders = ("benchmarks", "csrc", "docs", "examples", "requirements", "tests")
    expected = files_of(ROOT, *folders)
    assert set(expected) >= {"csrc/ahead.txt", "requirements/cli.txt", "docs/gaussian.png", "examples/photo.py"}
    found = files_of(unpacked, *folders)
    assert set(found) == set(expected)
    assert all(found[name].read_bytes() == path.read_bytes() for name, path in expected.items())
    for name in (
        "setup.py",
        "pyproject.toml",
        "Makefile",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "CITATION.cff",
        "CODE_OF_CONDUCT.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "mkdocs.yml",
        "torch_conv/py.typed",
    ):
        assert (unpacked / name).is_file(), name
    assert f"\nVersion: {torch_conv.__version__}\n" in (unpacked / "PKG-INFO").read_text()


@slow
def test_the_source_distribution_holds_nothing_that_is_built(unpacked):
    names = [str(path.relative_to(unpacked)) for path in unpacked.rglob("*")]
    assert not [name for name in names if re.search(r"^build/|\.(so|kernel|whl|pyc)$", name)]


@slow
def test_the_package_page_stands_alone(unpacked):
    """It has the headings, tables and code of the README, without pictures and links to files of the checkout."""
    page, readme = (unpacked / "PKG-INFO").read_text().partition("\n\n")[2], (ROOT / "README.md").read_text()
    for part in (r"(?m)^#+ .*$", r"(?ms)^```.*?^```$"):
        assert re.findall(part, readme) and re.findall(part, readme) == re.findall(part, page)
    assert page.count("\n|") == readme.count("\n|")
    assert " · " in readme and " · " not in page  # a line of links alone
    markdown = pytest.importorskip("readme_renderer.markdown")
    targets = re.findall(r"""(?:href|src)=["']?([^"'\s>]+)""", markdown.render(readme))
    assert "docs/install.md" in targets and "docs/gaussian.png" in targets
    targets = re.findall(r"""(?:href|src)=["']?([^"'\s>]+)""", markdown.render(page))
    assert targets and all(target.startswith("#") for target in targets)


@slow
def test_twine_takes_the_source_distribution(unpacked):
    pytest.importorskip("twine")
    (archive,) = unpacked.parent.parent.glob("*.tar.gz")
    done = run_python(unpacked, "-m", "twine", "check", "--strict", archive)
    assert done.returncode == 0, done.stdout + done.stderr


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
