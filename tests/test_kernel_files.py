"""The kernel store writes, reads, refuses and rebuilds files; the list of kernels built ahead."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from kernel_files import COLUMN, DAMAGE, OPS, UPLOAD, build, run_python, state

import torch_conv

# ---- Files ---------------------------------------------------------------------------------------------------------


def test_a_kernel_is_built_once(compiler, tmp_path):
    paths = build(tmp_path, COLUMN, UPLOAD)
    assert sorted(paths) == sorted((tmp_path / "sm_90").iterdir())  # no other file is left
    before = [state(path) for path in paths]
    assert build(tmp_path, COLUMN, UPLOAD) == paths
    assert [state(path) for path in paths] == before


def unpacked(path):
    """A file's code, by a reader of its own: runs of new bytes and of repeated ones (csrc/runtime/compress.cpp)."""
    _, _, packed = path.read_bytes()[:-16].split(b"\0", 2)
    stream, code = iter(packed), bytearray()

    def number():
        parts = []
        while not parts or parts[-1] > 127:
            parts.append(next(stream))
        return sum((part & 127) << 7 * i for i, part in enumerate(parts))

    size = number()
    while len(code) < size:
        token = next(stream)
        fresh, repeated = token >> 4, token & 15
        code += bytes(next(stream) for _ in range(fresh + (number() if fresh == 15 else 0)))
        if len(code) == size:
            break
        repeated += 4 + (number() if repeated == 15 else 0)
        start = len(code) - number()
        for at in range(start, start + repeated):
            code.append(code[at])
    return bytes(code)


def test_code_is_written_compressed(compiler, tmp_path):
    (path,) = build(tmp_path, COLUMN)
    code = unpacked(path)
    segments, count = int.from_bytes(code[32:40], "little"), int.from_bytes(code[56:58], "little")
    assert code[:4] == b"\x7fELF"
    assert len(code) == segments + 56 * count  # the table of segments comes last
    assert 2 * path.stat().st_size < len(code)


def hashed(text):
    """The hash at a file's end: FNV-1a of 64 bits."""
    value = 14695981039346656037
    for byte in text:
        value = (value ^ byte) * 1099511628211 % 2**64
    return b"%016x" % value


def test_a_pipe_is_not_waited_for(compiler, tmp_path):
    (path,) = build(tmp_path, COLUMN)
    path.unlink()
    os.mkfifo(path)
    assert build(tmp_path, COLUMN) == [path]
    assert path.is_file()


def test_built_kernels_are_found_from_any_folder(tmp_path):
    """Also by a program that loads the module by a relative name and works elsewhere later."""
    shutil.copy(torch_conv.library_path(), tmp_path / "_C.abi3.so")
    (tmp_path / "kernels" / "sm_90").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    code = (
        "import ctypes, os, torch\nctypes.CDLL('./_C.abi3.so')\nos.chdir('elsewhere')\n"
        "print([line for line in torch.ops.torch_conv._store_report() if line.startswith('built ahead')])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "['built ahead: 0 kernels for sm_90']\n"


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_built_again(compiler, tmp_path, damage):
    (path,) = build(tmp_path, COLUMN)
    whole = path.read_bytes()
    before = state(path)
    DAMAGE[damage](path)
    damaged = state(path)
    assert damaged != before
    assert build(tmp_path, COLUMN) == [path]
    assert state(path) != damaged
    built = path.read_bytes()  # other bytes than before are possible: compilers number their output
    assert built.split(b"\0", 2)[:2] == whole.split(b"\0", 2)[:2] and built[-16:] == hashed(built[:-16])
    good = state(path)
    assert build(tmp_path, COLUMN) == [path]
    assert state(path) == good


def with_stream(path, stream):
    """Puts another stream into a file, and the hash that belongs to it."""
    whole = path.read_bytes()
    description, symbol, _ = whole[:-16].split(b"\0", 2)
    assert whole[-16:] == hashed(whole[:-16])
    text = b"\0".join((description, symbol, stream))
    path.write_bytes(text + hashed(text))


def number(value):
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    return bytes([value & 127]) if value < 128 else bytes([value & 127 | 128]) + number(value >> 7)


def new(code):
    """A run of new bytes only, of at least 15."""
    return bytes([15 << 4]) + number(len(code) - 15) + code


def repeat(count, back):
    """A run of repeated bytes only, of at least 19."""
    return bytes([15]) + number(count - 19) + number(back)


# Streams that have no valid meaning, or another length than they state. After NEW comes the distance of 4 repeated
# bytes; 76 more bytes would make 100.
NEW = new(bytes(range(20)))
STREAMS = {
    "nothing": b"",
    "a size of 2^40": number(2**40) + NEW,
    "a size of 2^62": number(2**62) + NEW,
    "a size that does not end": b"\xff" * 12 + NEW,
    "a size of 2^63 and more": b"\xff" * 9 + b"\1" + NEW,
    "a size cut inside": b"\x80",
    "a size alone": number(100),
    "fewer bytes than the size": number(100) + NEW + number(4),
    "a distance of 0": number(100) + NEW + number(0) + repeat(76, 1),
    "a distance before the start": number(100) + NEW + number(21) + repeat(76, 1),
    "a distance of 2^62": number(100) + NEW + number(2**62) + repeat(76, 1),
    "a distance cut inside": number(100) + NEW + b"\x80",
    "no distance": number(100) + NEW,
    "a repeat longer than the size": number(100) + NEW + number(4) + repeat(77, 1),
    "a repeat of 2^62": number(100) + NEW + number(4) + repeat(2**62, 1),
    "a repeat cut inside": number(100) + NEW + number(4) + bytes([15]) + b"\x80",
    "new bytes beyond the size": number(1) + new(bytes(2**22)),
    "new bytes beyond the file": number(100) + bytes([15 << 4]) + number(60) + bytes(20),
    "new bytes of 2^62": number(100) + bytes([15 << 4]) + number(2**62) + bytes(20),
    "their number cut inside": number(100) + bytes([15 << 4]) + b"\x80",
}


@pytest.mark.parametrize("stream", STREAMS)
def test_a_stream_that_cannot_be_read_is_built_again(compiler, tmp_path, stream):
    """Streams in files whose hash is right."""
    (path,) = build(tmp_path, UPLOAD)
    whole = path.read_bytes()
    with_stream(path, STREAMS[stream])
    assert build(tmp_path, UPLOAD) == [path]
    assert unpacked(path)[:4] == b"\x7fELF"
    assert len(path.read_bytes()) == len(whole)


@pytest.mark.parametrize("stream", [number(20) + NEW, number(100) + NEW + number(20) + repeat(76, 1)])
def test_a_stream_that_can_be_read_is_not_built_again(compiler, tmp_path, stream):
    """So the files above are refused because of their streams."""
    (path,) = build(tmp_path, UPLOAD)
    with_stream(path, stream)
    good = state(path)
    assert build(tmp_path, UPLOAD) == [path]
    assert state(path) == good


def test_architectures_have_files_of_their_own(compiler, tmp_path):
    build(tmp_path, UPLOAD)
    (other,) = OPS._build_kernels(str(tmp_path), 80, [UPLOAD])
    assert Path(other).parent == tmp_path / "sm_80"
    assert Path(other).read_bytes() != next((tmp_path / "sm_90").iterdir()).read_bytes()


def newest(compiler):
    """The newest compute capability that the compiler knows: 121 for 12.1."""
    return int(compiler.split(", ")[-1].replace(".", ""))


def test_code_for_a_lower_minor_capability(compiler):
    """NVRTC does not know 8.5, whose GPUs would run the code of 8.0."""
    assert "for 'sm_80'" in OPS._ptxas(85, UPLOAD)


def test_code_for_a_gpu_that_is_newer_than_the_compiler(compiler, tmp_path):
    known = newest(compiler)
    (path,) = OPS._build_kernels(str(tmp_path), known + 10, [UPLOAD])
    assert f".target sm_{known}".encode() in unpacked(Path(path))


def test_code_for_a_gpu_that_is_too_old(compiler, tmp_path):
    sentence = "torch_conv: kernel cuda::upload_chunk cannot be compiled: compute capability 7.5 is too low"
    with pytest.raises(RuntimeError, match=f"^{sentence}$"):
        OPS._build_kernels(str(tmp_path), 75, [UPLOAD])


def test_the_report_names_the_origin_of_a_gpus_kernels(compiler):
    known = newest(compiler)
    folders = [path.name for path in Path(torch_conv.__file__).parent.glob("kernels/sm_*")]
    ahead = "built ahead for sm_90, all others " if "sm_90" in folders else ""
    lines = [line for line in OPS._store_report([75, 90, known + 10]) if line.startswith("compute capability ")]
    assert lines == [
        "compute capability 7.5: kernels cannot run",
        f"compute capability 9.0: kernels {ahead}compiled for sm_90",
        f"compute capability {(known + 10) / 10}: kernels compiled by the driver from PTX for compute_{known}",
    ]


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("kernels/direct2d/column/kernel.cuh direct2d::no_such_kernel<float>", "direct2d::no_such_kernel<float>"),
        (
            "kernels/direct2d/column/kernel.cuh direct2d::direct2d_column<float, 4>",
            "direct2d::direct2d_column<float, 4>",
        ),
        ("kernels/direct2d/column/kernel.cuh direct2d::direct2d_column<no_type, 4, false, 3>", "no_type"),
        (
            "kernels/direct2d/no_such_file.cuh direct2d::direct2d_column<float, 4, false, 3>",
            "kernels/direct2d/no_such_file.cuh",
        ),
    ],
)
def test_a_kernel_that_cannot_be_had_is_one_sentence(compiler, tmp_path, kernel, name):
    with pytest.raises(RuntimeError) as refusal:
        build(tmp_path, kernel)
    sentence = str(refusal.value)
    assert sentence.startswith("torch_conv: ")
    assert name in sentence
    assert sentence.count("\n") == 0
    assert str(ROOT) not in sentence
    assert list((tmp_path / "sm_90").iterdir()) == []
    assert build(tmp_path, UPLOAD)[0].exists()  # the next good one works


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_takes_no_file_is_one_sentence(compiler, tmp_path):
    (tmp_path / "sm_90").mkdir(mode=0o500)
    with pytest.raises(RuntimeError, match="^torch_conv: .*[.]kernel cannot be written$"):
        build(tmp_path, UPLOAD)


def test_without_a_compiler(tmp_path):
    code = f"""
print(torch.ops.torch_conv._store_report()[0])
try:
    torch.ops.torch_conv._build_kernels({str(tmp_path)!r}, 90, [{UPLOAD!r}])
except RuntimeError as refusal:
    print(refusal)
"""
    assert run_python(code, TORCH_CONV_COMPILE="never").splitlines() == [
        "compiler: none (TORCH_CONV_COMPILE is never)",
        "torch_conv: kernel cuda::upload_chunk cannot be compiled: TORCH_CONV_COMPILE is never",
    ]


# ---- The list of kernels that are built ahead -----------------------------------------------------------------------


def ahead_of(folder):
    """csrc/ahead.py, imported from its folder."""
    spec = importlib.util.spec_from_file_location("ahead", folder / "ahead.py")
    ahead = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ahead)
    return ahead


def test_the_list_names_kernels_of_files_that_exist():
    ahead = ahead_of(ROOT / "csrc")
    kernels = ahead.kernels()
    assert len(kernels) > 100
    assert COLUMN in kernels
    assert UPLOAD in kernels
    for kernel in kernels:
        file, name = kernel.split(" ", 1)
        text = (ROOT / "csrc" / file).read_text()
        assert not ahead._CHOICE.search(name) and name.count("{") == name.count("}"), kernel
        assert name.count("<") == name.count(">"), kernel
        assert f" {name.split('<')[0].split('::')[1]}(" in text, kernel


def test_choices_in_braces():
    assert ahead_of(ROOT / "csrc").expand("f<{float,half_t}, 3, {1,2}>") == [
        "f<float, 3, 1>",
        "f<float, 3, 2>",
        "f<half_t, 3, 1>",
        "f<half_t, 3, 2>",
    ]


def small_list(tmp_path, text):
    """A folder of ahead.py and a list, the folder of its results, and the command."""
    (tmp_path / "csrc").mkdir()
    shutil.copy(ROOT / "csrc" / "ahead.py", tmp_path / "csrc")
    (tmp_path / "csrc" / "ahead.txt").write_text(text)
    command = [sys.executable, tmp_path / "csrc" / "ahead.py", torch_conv.library_path(), tmp_path, "90"]
    environment = {**os.environ, "MAX_JOBS": "1"}
    return lambda: subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_files_that_are_not_of_the_list_are_removed(compiler, tmp_path):
    run = small_list(tmp_path, f"# one\n{UPLOAD.replace(' ', '  ')}\n")
    place = tmp_path / "sm_90"
    place.mkdir()
    (place / "0123456789abcdef.kernel").write_text("of an older list")
    (place / "0123456789abcdef.kernel.17.0").write_text("of a build that was interrupted")
    done = run()
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("torch_conv: 1 kernels for sm_90, ")
    (path,) = place.iterdir()
    before = state(path)
    assert run().returncode == 0
    assert state(path) == before


def test_a_list_with_a_wrong_kernel_fails_the_build(compiler, tmp_path):
    done = small_list(tmp_path, "kernels/direct2d/column/kernel.cuh  direct2d::no_such_kernel<float>\n")()
    assert done.returncode == 1
    assert "kernel direct2d::no_such_kernel<float> cannot be compiled: " in done.stderr
    assert done.stderr.endswith("torch_conv: kernels for compute capability 9.0 were not built\n")


def test_the_module_holds_the_sources_of_today(tmp_path):
    """The sources for NVRTC; a changed file must rebuild the module."""
    ahead = ahead_of(ROOT / "csrc")
    module = Path(torch_conv.library_path()).read_bytes()
    missing = [name for name, text in ahead.device_sources().items() if text.encode() not in module]
    assert missing == []
