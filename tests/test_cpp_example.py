"""examples/cpp by its README's commands: exported, built, run without Python, and its message for a wrong result."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import ROOT, needs_built_checkout

import torch_conv

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
