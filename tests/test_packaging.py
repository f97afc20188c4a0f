"""What travels: the source distribution holds all that a build reads, a wheel all that was built."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import torch_conv

ROOT = Path(torch_conv.__file__).parent.parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / "setup.py").exists(), reason="not a checkout"),
]


def run_setup(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


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


def test_the_source_distribution_holds_what_a_build_reads(unpacked):
    expected = files_of(ROOT, "csrc", "requirements", "tests", "examples")
    assert {name for name in expected if name.endswith(".txt")} >= {"csrc/ahead.txt", "requirements/cli.txt"}
    found = files_of(unpacked, "csrc", "requirements", "tests", "examples")
    assert set(found) == set(expected)
    assert all(found[name].read_bytes() == path.read_bytes() for name, path in expected.items())
    for name in ("setup.py", "pyproject.toml", "Makefile", "README.md", "LICENSE", "torch_conv/py.typed"):
        assert (unpacked / name).is_file(), name


def test_the_source_distribution_holds_nothing_that_is_built(unpacked):
    names = files_of(unpacked, ".")
    assert not [name for name in names if name.endswith((".so", ".kernel", ".whl"))]


def test_the_table_of_sources_can_be_made(unpacked, tmp_path):
    texts = []
    for folder in (ROOT, unpacked):
        spec = importlib.util.spec_from_file_location("ahead", folder / "csrc" / "ahead.py")
        ahead = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(ahead)
        ahead.write_sources(tmp_path / "sources.cpp")
        texts.append((tmp_path / "sources.cpp").read_text())
    assert texts[0] == texts[1]


def test_a_wheel_holds_the_kernels_that_were_built(unpacked, tmp_path):
    """Files in the place where a build puts them; nothing is compiled."""
    built = tmp_path / "built" / "torch_conv"
    (built / "kernels" / "sm_90").mkdir(parents=True)
    (built / "_C.abi3.so").write_bytes(b"module")
    (built / "kernels" / "sm_90" / "0.kernel").write_bytes(b"kernel")
    (unpacked / "setup.cfg").write_text(f"[build]\nbuild_lib = {tmp_path / 'built'}\n")
    run_setup(unpacked, "build_py", "bdist_wheel", "--skip-build", "-d", tmp_path, "--bdist-dir", tmp_path / "bdist")
    (wheel,) = tmp_path.glob("*-cp310-abi3-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"torch_conv/_C.abi3.so", "torch_conv/kernels/sm_90/0.kernel"} <= names
    assert {"torch_conv/kernels.py", "torch_conv/py.typed", "torch_conv/cli/prepare.py"} <= names
