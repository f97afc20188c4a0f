"""The example programs whose imports `make` installs, and examples/cpp by its README's commands."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import ROOT, needs_built_checkout

import torch_conv

pytestmark = needs_built_checkout


def test_examples_import_nothing_private():
    for path in (ROOT / "examples").rglob("*.py"):
        for line in path.read_text().splitlines():
            assert not re.match(r"\s*(from|import) torch_conv\S*\._|\s*from torch_conv\S* import .*\b_", line), path


def test_edges(tmp_path, device):
    for module in ("torchvision", "matplotlib", "skimage"):
        pytest.importorskip(module)
    picture = tmp_path / "edges.jpg"
    run = [sys.executable, "examples/edges.py", "--device", str(torch.device(device)), "--output", str(picture)]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    plans = done.stdout.splitlines()[:-1]
    assert [plan.split(":")[0] for plan in plans] == ["gaussian_sobel2d", "thin_edges2d", "structure_tensor2d"]
    assert all(" fused/" in plan and "launches 1;" in plan for plan in plans)
    assert picture.stat().st_size > 10_000


@pytest.fixture
def run_here(monkeypatch, capsys):
    """run(program, *arguments): its lines. Each process of its own would import torch and matplotlib again."""

    def run(program, *arguments):
        monkeypatch.syspath_prepend(ROOT / "examples")
        monkeypatch.chdir(ROOT)
        monkeypatch.setattr(sys, "argv", [f"{program}.py", *map(str, arguments)])
        importlib.import_module(program).main()
        return capsys.readouterr().out.splitlines()

    return run


def test_photo(tmp_path, device, run_here):
    for module in ("torchvision", "matplotlib", "skimage", "cv2"):
        pytest.importorskip(module)
    picture = tmp_path / "photo.jpg"
    options = ["--device", torch.device(device), "--megapixels", "1", "--output", picture]
    first, _, *table, layout, _ = run_here("photo", *options)
    assert first.startswith("816 x 1225 x 3 bytes, 3 MB;")
    libraries = [line[14:28].strip() for line in table]
    assert libraries == ["torch_conv", "OpenCV", "torchvision"] * 2 + ["torch_conv", "OpenCV"]
    apart = [int(line.split()[-1]) for line, library in zip(table, libraries, strict=True) if library != "torch_conv"]
    assert max(apart) <= 2  # torchvision's sharpening doubles the rounding error of the blurred image
    assert layout.startswith("torch_conv's results lie in memory as (H, W, 3)")
    assert picture.stat().st_size > 10_000


@pytest.mark.slow
def test_photo_beside_an_installed_package(tmp_path):
    """From a copy of the folder, above which a package lies that is not built, as in a fresh checkout."""
    for module in ("matplotlib", "skimage", "PIL"):
        pytest.importorskip(module)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "torch_conv").mkdir()
    (tmp_path / "torch_conv" / "__init__.py").write_text("raise ImportError('not built')")
    run = [sys.executable, "examples/photo.py", "--device", "cpu", "--megapixels", "0.2"]
    environment = os.environ | {"PYTHONPATH": str(Path(torch_conv.__file__).parent.parent)}
    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "photo.jpg").stat().st_size > 10_000


@pytest.mark.parametrize(("program", "package"), [("photo", "skimage"), ("edges", "matplotlib")])
def test_a_program_names_the_package_that_it_lacks(program, package, run_here, monkeypatch, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit) as leaving:
        run_here(program, "--device", "cpu", "--output", tmp_path / "picture.jpg")
    assert leaving.value.code == 2
    sentence = f"{program}: {package} is not installed: pip install 'torch-conv[examples]'\n"
    assert capsys.readouterr() == ("", sentence)


@pytest.mark.parametrize("shards", [1, 3])
def test_multi_gpu(tmp_path, device, shards, run_here):
    for module in ("torchvision", "matplotlib", "skimage"):
        pytest.importorskip(module)
    picture, place = tmp_path / "multi_gpu.png", torch.device(device).type
    names = ["cpu" if place == "cpu" else f"cuda:{i % torch.cuda.device_count()}" for i in range(shards)]
    lines = "\n".join(run_here("multi_gpu", "--devices", ",".join(names), "--size", "256", "--output", picture))
    assert f"{names[0]} alone gives the same bits" in lines
    assert lines.count(" rows on ") == shards
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--devices", "tpu"], "--devices must be"),
        (["--devices", "cpu,cuda:0"], "--devices must be all on the CPU or all CUDA devices"),
        (["--devices", "cuda:99"], "--devices must be among the"),
        (["--size", "0"], "--size must be at least 16, got 0"),
        (["--photo", "missing.png"], "there is no file missing.png"),
        (["--photo", "Makefile"], "Makefile is not an image that can be read"),
        (["--output", "picture.tiff"], "--output must end in"),
        (["--output", "nowhere/picture.png"], "there is no folder nowhere"),
    ],
)
def test_multi_gpu_refuses_in_one_sentence(monkeypatch, capsys, arguments, sentence):
    pytest.importorskip("torchvision")
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["multi_gpu.py", *arguments])
    with pytest.raises(SystemExit) as leaving:
        importlib.import_module("multi_gpu").main()
    assert leaving.value.code == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.startswith(f"multi_gpu: {sentence}")
    assert written.err.count("\n") == 1


@pytest.mark.parametrize("program", ["edges", "photo", "multi_gpu"])
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--photo", "cut.jpg"], "cut.jpg is damaged or cut short"),
        (["--photo", "deep.png"], "deep.png must have 8 bits a channel, got 16"),
        (["--photo", "missing.png"], "there is no file missing.png"),
        (["--photo", "old.png", "--output", "old.png"], "--output must not be the photograph, got old.png"),
        (["--photo", "old.png", "--output", "link.png"], "--output must not be the photograph, got link.png"),
        (["--output", "picture.tiff"], "--output must end in .jpg or .png, got picture.tiff"),
        (["--output", "folder.png"], "folder.png is a folder"),
        (["--output", "nowhere/picture.png"], "there is no folder nowhere"),
    ],
)
def test_pictures_that_cannot_be(tmp_path, monkeypatch, capsys, program, arguments, sentence):
    pil, np = pytest.importorskip("PIL.Image"), pytest.importorskip("numpy")
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    pil.fromarray(np.full((64, 64, 3), 7, np.uint8)).save("old.png")
    pil.fromarray(np.full((64, 64), 7, np.uint16)).save("deep.png")
    pil.effect_noise((64, 64), 50).save("cut.jpg")
    Path("cut.jpg").write_bytes(Path("cut.jpg").read_bytes()[:-300])
    Path("link.png").symlink_to("old.png")
    Path("folder.png").mkdir()
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.iterdir()}
    options = ["--devices", "cpu"] if program == "multi_gpu" else ["--device", "cpu"]
    monkeypatch.setattr(sys, "argv", [f"{program}.py", *options, *arguments])
    with pytest.raises(SystemExit) as leaving:
        importlib.import_module(program).main()
    assert leaving.value.code == 2
    written = capsys.readouterr()
    assert (written.out, written.err) == ("", f"{program}: {sentence}\n")
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.iterdir()} == before


# The environment's tools before the system's, also where it is not activated.
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
CXX = os.environ.get("CXX", "g++")


@pytest.mark.slow
@needs_built_checkout
@pytest.mark.skipif(shutil.which("cmake", path=PATH) is None, reason="there is no cmake: requirements/test.txt has it")
@pytest.mark.skipif(shutil.which("ninja", path=PATH) is None, reason="there is no ninja: requirements/test.txt has it")
@pytest.mark.skipif(shutil.which(CXX) is None, reason=f"there is no C++ compiler: no {CXX} on the PATH")
def test_cpp_example(tmp_path):
    model, build = tmp_path / "model", tmp_path / "build"
    program = build / "torch_conv_example"
    # Both tests take half a minute of one core.
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    tools = {**os.environ, "PATH": PATH, "CMAKE_GENERATOR": "Ninja"}
    export = subprocess.Popen(
        [sys.executable, "examples/cpp/export.py", model],
        cwd=ROOT,
        env={**os.environ, **cache},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        cmake = shutil.which("cmake", path=PATH)
        places = [f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}"]
        configure = [cmake, "-S", "examples/cpp", "-B", build, *places, "-DCMAKE_CXX_FLAGS=-Werror"]
        done = subprocess.run(configure, cwd=ROOT, env=tools, capture_output=True, text=True)
        assert done.returncode != 0 and "torch_conv.library_path()" in done.stderr  # it does not guess
        configure.append(f"-DTORCH_CONV_LIBRARY={torch_conv.library_path()}")
        for step in (configure, [cmake, "--build", build]):
            done = subprocess.run(step, cwd=ROOT, env=tools, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
    finally:
        said, _ = export.communicate(timeout=300)
    assert export.returncode == 0, said

    def run(*arguments):  # an empty environment: no path of Python's, none of torch's
        return subprocess.run([program, *arguments], cwd=tmp_path, env={}, capture_output=True, text=True)

    done = run(model)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["ok"] * (9 if torch.cuda.is_available() else 5)

    expected = torch.load(model / "expected.pt")
    expected["model"][0, 1, 2, 3] += 1e-3
    torch.save(expected, model / "expected.pt")
    done = run(model)
    assert done.returncode == 1
    wrong = [line for line in done.stdout.splitlines() if line.startswith("WRONG")]
    assert len(wrong) == len(lines) // 2

    for arguments, sentence in (((model, "missing.so"), "missing.so: cannot open"), ((build,), "run export.py first")):
        done = run(*arguments)
        assert done.returncode == 1
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1
