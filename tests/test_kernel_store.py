"""The kernel store: files of kernels, the cache's folder, what happens without a compiler, and prepare."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from strategies import make_image, make_window
from tolerance import assert_same_bits

import torch_conv

ROOT = Path(torch_conv.__file__).parent.parent
OPS = torch.ops.torch_conv
COLUMN = "direct2d/kernel_column.cuh direct2d::direct2d_column<float, 4, false, 3>"
UPLOAD = "cuda/kernel_upload.cuh cuda::upload_chunk"


@pytest.fixture
def compiler():
    """The compiler's name; tests that compile need one, but no GPU."""
    (line,) = (line for line in OPS._store_report() if line.startswith("compiler: "))
    if line.startswith("compiler: none"):
        pytest.skip("no compiler (NVRTC)")
    return line.removeprefix("compiler: ")


def report():
    return OPS._store_report()


def origins():
    """Where the kernels that this process has loaded came from, by their names."""
    return dict(line.removeprefix("loaded: ").rsplit(", ", 1) for line in report() if line.startswith("loaded: "))


def run_python(code, **variables):
    """What a fresh process prints; a variable of None is not set there."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\nimport torch, torch_conv\n{code}"],
        env={name: value for name, value in environment.items() if value is not None},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- Files ---------------------------------------------------------------------------------------------------------


def build(folder, *kernels):
    return [Path(path) for path in OPS._build_kernels(str(folder), 90, list(kernels))]


def state(path):
    """Tells whether a file was written again."""
    return path.stat().st_ino, path.stat().st_mtime_ns


def test_a_kernel_is_built_once(compiler, tmp_path):
    paths = build(tmp_path, COLUMN, UPLOAD)
    assert sorted(paths) == sorted((tmp_path / "sm_90").iterdir())  # nothing is left beside them
    before = [state(path) for path in paths]
    assert build(tmp_path, COLUMN, UPLOAD) == paths
    assert [state(path) for path in paths] == before


def unpacked(path):
    """A file's code, by a reader of its own: runs of new bytes and of repeated ones (csrc/cuda/compress.cpp)."""
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


def flipped(at):
    def flip(path):
        data = bytearray(path.read_bytes())
        data[int(at * (len(data) - 1))] ^= 4
        path.write_bytes(data)

    return flip


def cut(keep):
    def truncate(path):
        os.truncate(path, int(keep * path.stat().st_size))

    return truncate


def of_another_kernel(path):
    (other,) = build(path.parent.parent / "other", UPLOAD)
    shutil.copy(other, path)


def longer(path):
    path.write_bytes(path.read_bytes() + b"\0")


DAMAGE = {
    "empty": cut(0),
    "half of it": cut(0.5),
    "without its last bytes": cut(0.9999),
    "longer": longer,
    "a bit of the description": flipped(0.001),
    "a bit of the code": flipped(0.5),
    "a bit of the hash": flipped(1),
    "another kernel": of_another_kernel,
}


def hashed(text):
    """What a file ends with: FNV-1a of 64 bits."""
    value = 14695981039346656037
    for byte in text:
        value = (value ^ byte) * 1099511628211 % 2**64
    return b"%016x" % value


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_built_again(compiler, tmp_path, damage):
    (path,) = build(tmp_path, COLUMN)
    whole = path.read_bytes()
    DAMAGE[damage](path)
    damaged = path.read_bytes()
    assert damaged != whole
    assert build(tmp_path, COLUMN) == [path]
    assert path.read_bytes() != damaged
    built = path.read_bytes()  # not always byte for byte what it was: compilers number what they make
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


# What cannot be told, or ends elsewhere than it says. After NEW comes from how far back 4 bytes are repeated; 76 more
# would make the 100.
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
    """Of files whose hash is right."""
    (path,) = build(tmp_path, UPLOAD)
    whole = path.read_bytes()
    with_stream(path, STREAMS[stream])
    assert build(tmp_path, UPLOAD) == [path]
    assert unpacked(path)[:4] == b"\x7fELF"
    assert len(path.read_bytes()) == len(whole)


@pytest.mark.parametrize(
    "stream",
    [
        number(20) + NEW,
        number(100) + NEW + number(20) + repeat(76, 1),
    ],
)
def test_a_stream_that_can_be_read_is_not_built_again(compiler, tmp_path, stream):
    """So it is for what their streams say that the files above are refused."""
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


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("direct2d/kernel_column.cuh direct2d::no_such_kernel<float>", "direct2d::no_such_kernel<float>"),
        ("direct2d/kernel_column.cuh direct2d::direct2d_column<float, 4>", "direct2d::direct2d_column<float, 4>"),
        ("direct2d/kernel_column.cuh direct2d::direct2d_column<no_type, 4, false, 3>", "no_type"),
        ("direct2d/no_such_file.cuh direct2d::direct2d_column<float, 4, false, 3>", "direct2d/no_such_file.cuh"),
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
    assert run_python(code, TORCH_CONV_NO_NVRTC="1").splitlines() == [
        "compiler: none (NVRTC was not found)",
        "torch_conv: kernel cuda::upload_chunk cannot be compiled: NVRTC was not found",
    ]


# ---- The list of kernels that are built ahead -----------------------------------------------------------------------


def ahead_of(folder):
    """csrc/ahead.py, as it lies in a folder."""
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
        assert "{" not in name and "}" not in name, kernel
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
    """ahead.py beside a list of its own, the folder it builds into, and what to run."""
    (tmp_path / "csrc").mkdir()
    shutil.copy(ROOT / "csrc" / "ahead.py", tmp_path / "csrc")
    (tmp_path / "csrc" / "ahead.txt").write_text(text)
    command = [sys.executable, tmp_path / "csrc" / "ahead.py", ROOT / "torch_conv" / "_C.abi3.so", tmp_path, "90"]
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
    done = small_list(tmp_path, "direct2d/kernel_column.cuh  direct2d::no_such_kernel<float>\n")()
    assert done.returncode == 1
    assert "kernel direct2d::no_such_kernel<float> cannot be compiled: " in done.stderr
    assert done.stderr.endswith("torch_conv: kernels for compute capability 9.0 were not built\n")


def test_the_module_holds_the_sources_of_today(tmp_path):
    """What NVRTC is given; a changed file must rebuild the module."""
    ahead = ahead_of(ROOT / "csrc")
    module = (ROOT / "torch_conv" / "_C.abi3.so").read_bytes()
    missing = [name for name, text in ahead.device_sources().items() if text.encode() not in module]
    assert missing == []


# ---- The folder of the cache ---------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder in which nothing is set."""
    for name in ("TORCH_CONV_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def cache():
    (line,) = (line for line in report() if line.startswith("cache: "))
    return line.removeprefix("cache: ")


def test_the_cache_lies_in_the_home_folder(home):
    folder = home / ".cache" / "torch_conv" / "kernels"
    assert cache() == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_cache_lies_where_caches_do(home, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "caches"))
    assert cache() == str(home / "caches" / "torch_conv" / "kernels")
    assert not (home / ".cache").exists()


def test_the_cache_can_be_moved(home, monkeypatch):
    folder = home / "else" / "where"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "caches"))
    monkeypatch.setenv("TORCH_CONV_CACHE", str(folder))
    assert cache() == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in home.iterdir()] == ["else"]


def test_the_cache_can_be_switched_off(home, monkeypatch):
    monkeypatch.setenv("TORCH_CONV_CACHE", "0")
    assert cache() == "none (TORCH_CONV_CACHE is 0)"
    assert list(home.iterdir()) == []


def test_without_a_home_folder_there_is_no_cache(home, monkeypatch):
    monkeypatch.delenv("HOME")
    assert cache() == "none (there is no home folder)"


def test_a_folder_that_cannot_be_made_is_no_cache(home, monkeypatch):
    (home / "file").write_text("")
    monkeypatch.setenv("TORCH_CONV_CACHE", str(home / "file"))
    assert cache() == f"none ({home}/file is no folder)"
    monkeypatch.setenv("TORCH_CONV_CACHE", str(home / "file" / "folder"))
    assert cache() == f"none ({home}/file/folder cannot be made)"


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_may_write_to_is_no_cache(home, monkeypatch, mode):
    folder = home / "kernels"
    folder.mkdir()
    folder.chmod(mode)
    monkeypatch.setenv("TORCH_CONV_CACHE", str(folder))
    assert cache() == f"none ({folder} belongs to another user or may be written to by others)"
    folder.chmod(0o755)  # what others may read is no harm
    assert cache() == str(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder away")
def test_a_folder_of_another_user_is_no_cache(home, monkeypatch):
    folder = home / "kernels"
    folder.mkdir(mode=0o700)
    os.chown(folder, 1234, 1234)
    monkeypatch.setenv("TORCH_CONV_CACHE", str(folder))
    assert cache() == f"none ({folder} belongs to another user or may be written to by others)"


# ---- prepare -------------------------------------------------------------------------------------------------------

CALLS = {
    "filter2d": lambda x, **more: torch_conv.filter2d(x, make_window((3, 3)), **more),
    "filter2d, large window": lambda x, **more: torch_conv.filter2d(x, make_window((45, 44)), **more),
    "filter2d_separable": lambda x, **more: torch_conv.filter2d_separable(x, *make_window((2, 7)), **more),
    "filter3d": lambda x, **more: torch_conv.filter3d(x, make_window((3, 3, 3)), **more),
    "filter3d_separable": lambda x, **more: torch_conv.filter3d_separable(x, *make_window((3, 5)), **more),
    "box_blur": lambda x, **more: torch_conv.box_blur(x, 9, **more),
    "gaussian_sobel": lambda x, **more: torch_conv.gaussian_sobel(x, 5, 1.0, **more),
    "unsharp_mask, apart": lambda x, **more: torch_conv.unsharp_mask(x, 9, 2.0, algorithm="separable", **more),
}


@pytest.mark.parametrize("name", CALLS)
def test_prepare_runs_nothing(device, name):
    image = make_image((2, 3, 40, 64), device=device)
    out = torch.full((2, 3, 40, 64), -7.0, device=device)
    before = image.clone()
    assert torch_conv.prepare(CALLS[name], image, out=out) is None
    assert out.eq(-7).all()
    assert_same_bits(image, before)
    loaded = origins()
    assert_same_bits(CALLS[name](image, out=out), CALLS[name](image))  # the next call runs
    assert origins() == loaded  # and needs nothing else
    assert device == "cpu" or loaded


def test_prepare_of_other_operators(device):
    image = make_image((1, 2, 40, 64), device=device)
    torch_conv.prepare(lambda: OPS.ladder2d(image, make_window((3, 3)), "tiled"))
    torch_conv.prepare(lambda: OPS.ladder3d(image, make_window((3, 3, 3))))
    torch_conv.prepare(torch_conv.conv2d, image, make_window((2, 1, 3, 3)).to(device), groups=2)
    torch_conv.prepare(torch_conv.conv2d, image, make_window((16, 2, 3, 3)).to(device))  # torch's
    loaded = origins()
    OPS.ladder2d(image, make_window((3, 3)), "tiled")
    OPS.ladder3d(image, make_window((3, 3, 3)))
    torch_conv.conv2d(image, make_window((2, 1, 3, 3)).to(device), groups=2)
    assert origins() == loaded


def test_prepare_of_shards(device):
    whole = torch_conv.split(make_image((1, 2, 40, 64), device=device), [device] * 3)
    torch_conv.prepare(torch_conv.gaussian_blur2d, whole, 5, 1.0)
    loaded = origins()
    assert torch_conv.gaussian_blur2d(whole, 5, 1.0).gather().shape == (1, 2, 40, 64)
    assert origins() == loaded


def test_prepare_refuses_what_the_call_would(device):
    image = make_image((8, 8), device=device)
    with pytest.raises(ValueError, match="^filter2d: kernel must have 2, 3 or 4 dimensions, got 5$"):
        torch_conv.prepare(torch_conv.filter2d, image, torch.ones(1, 1, 1, 3, 3))
    with pytest.raises(RuntimeError, match="^prepare: must not be called from a function that is being explained or"):
        torch_conv.explain(torch_conv.prepare, torch_conv.filter2d, image, torch.ones(3, 3))
    torch_conv.prepare(torch_conv.filter2d, image, torch.ones(3, 3))
    assert torch_conv.explain(torch_conv.filter2d, image, torch.ones(3, 3)).lines


# ---- Kernels at their first call, on a GPU --------------------------------------------------------------------------

# Windows of sizes that csrc/ahead.txt does not list; each test has its own, as kernels stay loaded.
SETUP = """
def window(h, w):
    generator = torch.Generator().manual_seed(h * w)
    return torch.rand(h, w, generator=generator)
def origins():
    lines = [line[8:] for line in torch.ops.torch_conv._store_report() if line.startswith("loaded: ")]
    return dict(line.rsplit(", ", 1) for line in lines)
x = torch.arange(2 * 64 * 96, device="cuda").remainder(251).float().reshape(2, 64, 96)
"""
FIRST_CALL = SETUP + "y = torch_conv.filter2d(x, window(5, 9))\nprint(set(origins().values()), y.double().sum().item())"


@pytest.mark.cuda
def test_the_second_process_finds_the_kernel_in_the_cache(cuda, compiler, tmp_path):
    folder = tmp_path / "kernels"
    first = run_python(FIRST_CALL, TORCH_CONV_CACHE=str(folder))
    (path,) = folder.iterdir()
    assert path.stat().st_mode & 0o022 == 0
    before = state(path)
    second = run_python(FIRST_CALL, TORCH_CONV_CACHE=str(folder))
    assert state(path) == before
    assert first.startswith("{'compiled'} ")
    assert second == first.replace("compiled", "from the cache")


@pytest.mark.cuda
@pytest.mark.parametrize("damage", ["half of it", "a bit of the code", "another kernel"])
def test_a_damaged_entry_of_the_cache_is_compiled_again(cuda, compiler, tmp_path, damage):
    folder = tmp_path / "kernels"
    first = run_python(FIRST_CALL, TORCH_CONV_CACHE=str(folder))
    (path,) = folder.iterdir()
    DAMAGE[damage](path)
    damaged = state(path)
    assert run_python(FIRST_CALL, TORCH_CONV_CACHE=str(folder)) == first
    assert state(path) != damaged
    assert run_python(FIRST_CALL, TORCH_CONV_CACHE=str(folder)) == first.replace("compiled", "from the cache")


@pytest.mark.cuda
@pytest.mark.parametrize("cache", ["0", "/dev/null", "/dev/full/kernels", "/sys/kernel"])
def test_without_a_cache_calls_only_take_longer(cuda, compiler, cache):
    assert run_python(FIRST_CALL, TORCH_CONV_CACHE=cache).startswith("{'compiled'} ")


@pytest.mark.cuda
def test_without_a_compiler_general_kernels_serve_the_call(cuda, tmp_path):
    major = torch.cuda.get_device_capability()[0]
    if not any(line.startswith("built ahead: ") and line[:-1].endswith(f"sm_{major}") for line in report()):
        pytest.skip("no kernels are built ahead for this GPU")
    code = (
        SETUP
        + f"""
plan = torch_conv.explain(torch_conv.filter2d, x, window(9, 11))
y = torch_conv.filter2d(x, window(9, 11))
torch.save(y.cpu(), {str(tmp_path / "result.pt")!r})
print(set(origins().values()))
print(plan)
"""
    )
    loaded, plan = run_python(code, TORCH_CONV_NO_NVRTC="1").splitlines()
    assert loaded == "{'built ahead'}"
    assert "not tile: its kernel is not built ahead and there is no compiler (NVRTC)" in plan
    namespace = {"torch": torch}
    exec(SETUP, namespace)
    image, window = namespace["x"].cpu(), namespace["window"](9, 11)
    assert_same_bits(torch.load(tmp_path / "result.pt"), torch_conv.filter2d(image, window))


@pytest.mark.cuda
def test_prepare_compiles_what_the_call_needs(cuda, compiler, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_CONV_CACHE", str(tmp_path / "kernels"))
    image, window = make_image((2, 64, 96), device=cuda), make_window((11, 9))
    before = origins()
    torch_conv.prepare(torch_conv.filter2d, image, window)
    new = {name: origin for name, origin in origins().items() if name not in before and "upload" not in name}
    assert list(new.values()) == ["compiled"]
    assert len(list((tmp_path / "kernels").iterdir())) >= 1
    loaded = origins()
    assert_same_bits(torch_conv.filter2d(image, window).cpu(), torch_conv.filter2d(image.cpu(), window))
    assert origins() == loaded


@pytest.mark.cuda
def test_first_use_while_a_graph_is_captured(cuda, compiler):
    code = (
        SETUP
        + """
taps, large = window(13, 9), window(61, 60)  # the large one travels by a kernel too
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = torch_conv.filter2d(x, taps)
    z = torch_conv.filter2d(x, large)
graph.replay()
torch.cuda.synchronize()
print(torch.equal(y, torch_conv.filter2d(x, taps)), torch.equal(z, torch_conv.filter2d(x, large)))
"""
    )
    assert run_python(code, TORCH_CONV_CACHE="0") == "True True\n"


@pytest.mark.cuda
def test_threads_that_want_one_kernel_at_once(cuda, compiler, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_CONV_CACHE", str(tmp_path / "kernels"))
    image, window = make_image((2, 64, 96), device=cuda), make_window((13, 11))
    results, start = [None] * 8, threading.Barrier(8)

    def first_call(i):
        start.wait()
        results[i] = torch_conv.filter2d(image, window)

    threads = [threading.Thread(target=first_call, args=(i,)) for i in range(len(results))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = torch_conv.filter2d(image.cpu(), window)
    for result in results:
        assert_same_bits(result.cpu(), expected)
    assert len(list((tmp_path / "kernels").iterdir())) == 1
