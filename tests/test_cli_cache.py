"""`torch-conv cache`: the folder that C++ chooses too, what it holds, and what clearing leaves."""

import itertools
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from command_line import refused, run
from kernel_files import COLUMN, UPLOAD, build, report

from torch_conv.cli import cache


@pytest.fixture
def folder(home, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("TORCH_CONV_CACHE", str(home / "kernels"))
    (home / "kernels").mkdir(mode=0o700)
    return home / "kernels"


def written(folder, name=b"f<float>", gpu=b"sm_90", code=b"code", file="0123456789abcdef.kernel"):
    content = b"torch_conv compressed kernel\n" + name + b"\n" + gpu + b"\nsources\nflags\nNVRTC 13.0\0symbol\0" + code
    (folder / file).write_bytes(content)
    return folder / file


def lines(capsys, *arguments):
    """What the command says, by the first words of the lines."""
    assert run("cache", *arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return dict(re.split("  +", line, maxsplit=1) for line in captured.out.splitlines())


def test_the_folder_is_the_one_that_the_library_uses(tmp_path, monkeypatch):
    """For all values of the variables. A relative path starts at the working directory."""
    monkeypatch.chdir(tmp_path)
    for values in itertools.product((None, "", "0", "moved"), (None, "", "caches"), (None, "", str(tmp_path))):
        for name, value in zip(("TORCH_CONV_CACHE", "XDG_CACHE_HOME", "HOME"), values, strict=True):
            monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
        (line,) = (line for line in report() if line.startswith("cache: "))
        path, why = cache.folder()
        assert line == f"cache: {path or f'none ({why})'}", values


def test_without_a_cache(home, monkeypatch, capsys):
    monkeypatch.setenv("TORCH_CONV_CACHE", "0")
    assert run("cache", "--clear") == 0
    assert capsys.readouterr().out == "There is no cache: TORCH_CONV_CACHE is 0.\n"


def test_a_cache_that_was_never_used(home, capsys):
    where = {"folder": f"{home}/.cache/torch_conv/kernels", "chosen by": "HOME"}
    assert lines(capsys) == {**where, "kernels": "none"}
    assert lines(capsys, "--clear") == {**where, "removed": "none"}
    assert list(home.iterdir()) == []


def test_kernels_are_counted(folder, capsys):
    written(folder, code=bytes(1 << 20))
    written(folder, gpu=b"sm_80", file="1123456789abcdef.kernel")
    written(folder, code=bytes(1 << 20), file="2123456789abcdef.kernel")  # the first, by another compiler
    (folder / "3123456789abcdef.kernel.aB3xYz").write_bytes(b"torch_co")  # a process was killed while it wrote
    (folder / "4123456789abcdef.kernel.lock").touch()  # ... or compiled
    where = {"folder": str(folder), "chosen by": "TORCH_CONV_CACHE"}
    assert lines(capsys) == {
        **where,
        "kernels": "5 files, 2.0 MiB",
        "replaced": "1 of them, by kernels of another version of torch_conv or NVRTC",
    }
    assert lines(capsys, "--clear") == {**where, "removed": "5 files, 2.0 MiB"}
    assert list(folder.iterdir()) == []


def test_nothing_else_is_removed(folder, capsys):
    """Links, pipes, folders, and files that only look like kernels, by name or by content."""
    outside = folder.parent / "outside"
    outside.mkdir()
    kernel, precious = written(outside), outside / "precious"
    precious.write_text("precious")
    (folder / "1123456789abcdef.kernel").symlink_to(kernel)
    (folder / "2123456789abcdef.kernel").symlink_to(precious)
    (folder / "sub").symlink_to(outside)
    (folder / "3123456789abcdef.kernel").mkdir()
    os.mkfifo(folder / "4123456789abcdef.kernel")
    (folder / "5123456789abcdef.kernel").write_text("a letter")
    (folder / "notes.txt").write_text("a letter")
    shutil.copy(kernel, folder / "a copy.kernel")
    before = sorted(folder.iterdir())
    written(folder)
    found = lines(capsys, "--clear")
    assert found["removed"].startswith("1 file, ")
    assert found["others"] == "8 files that torch_conv did not write"
    assert sorted(folder.iterdir()) == before
    assert precious.read_text() == "precious" and kernel.exists()


def test_kernels_that_the_library_writes(folder, compiler, capsys):
    """Two kernels and, as another version of the library would name it, one of them again."""
    for path in build(folder.parent / "built", COLUMN, UPLOAD):
        shutil.copy(path, folder)
    shutil.copy(path, folder / f"{'0' * 16}.kernel")
    found = lines(capsys)
    assert found["kernels"].startswith("3 files, ")
    assert found["replaced"].startswith("1 of them, ")
    assert "others" not in found


def test_a_folder_that_the_library_does_not_use(folder, capsys):
    folder.chmod(0o777)
    assert lines(capsys)["not used"] == "the folder belongs to another user, or others may write to it"


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_is_no_folder(folder, monkeypatch, capsys, kind):
    written(folder)
    other = folder.parent / kind
    other.symlink_to(folder) if kind == "link" else other.write_text("")
    monkeypatch.setenv("TORCH_CONV_CACHE", str(other))
    assert refused(capsys, "cache", "--clear") == f"torch-conv cache: {other} is no folder"
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [(0o300, " cannot be read: permission denied"), (0o500, "/FILE cannot be removed: permission denied")],
)
def test_permissions(monkeypatch, capsys, mode, sentence):
    """A folder of another user, and this process without root's powers over it."""
    folder, user = Path(tempfile.mkdtemp()), os.geteuid()
    kernel = written(folder)
    monkeypatch.setenv("TORCH_CONV_CACHE", str(folder))
    try:
        if user == 0:
            os.chown(folder, 65534, 65534)
            os.seteuid(65534)
        folder.chmod(mode)
        said = refused(capsys, "cache", "--clear")
    finally:
        os.seteuid(user)
        folder.chmod(0o700)
    assert said == f"torch-conv cache: {folder}{sentence.replace('FILE', kernel.name)}"
    assert kernel.exists()
    shutil.rmtree(folder)
