"""The kernel store: the cache's folder, prepare, first calls on a GPU, and calls without a compiler."""

import os
import threading

import pytest
import torch
from kernel_files import DAMAGE, OPS, report, run_python, state
from strategies import make_image, make_window
from tolerance import assert_same_bits

import torch_conv

pytestmark = pytest.mark.usefixtures("own_kernels")


def origins():
    """The sources of the kernels that this process has loaded, by their names."""
    return dict(line.removeprefix("loaded: ").rsplit(", ", 1) for line in report() if line.startswith("loaded: "))


# ---- The folder of the cache ---------------------------------------------------------------------------------------


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
    folder.chmod(0o755)  # others may read the files
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
    loaded, plan = run_python(code, TORCH_CONV_COMPILE="never").splitlines()
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
