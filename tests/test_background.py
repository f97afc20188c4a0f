"""Calls whose kernel is not compiled yet: stand-ins, compilation on threads, and what may go wrong there."""

import fcntl
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import plan_sweep
import pytest
from background_calls import CALLS, ON_TENSOR_CORES, PLANES, image, taps
from kernel_files import COLUMN, OPS, ROOT, report, run_python, state

import torch_conv
from torch_conv.dispatch.query import answer_text

# ---- Threads that compile, without a GPU ----------------------------------------------------------------------------

# Kernels that csrc/ahead.txt does not list.
FIRST = "kernels/direct2d/column/kernel.cuh direct2d::direct2d_column<float, 4, false, 10>"
SECOND = "kernels/direct2d/column/kernel.cuh direct2d::direct2d_column<float, 4, false, 12>"
WRONG = "kernels/direct2d/column/kernel.cuh direct2d::no_such_kernel<float>"
REQUEST = f"""
ops = torch.ops.torch_conv
def ready(*kernels):
    return ops._compile_in_background(90, list(kernels))
first, second, wrong = {FIRST!r}, {SECOND!r}, {WRONG!r}
"""


def test_threads_compile_and_fill_the_cache(compiler, tmp_path):
    code = REQUEST + "print(ready(first, second), ops._finish_compiling(), ready(first, second))"
    assert run_python(code, TORCH_CONV_CACHE=str(tmp_path)).split() == ["0", "0", "2"]
    assert [path.suffix for path in tmp_path.iterdir()] == [".kernel"] * 2  # no lock is left
    before = {path: state(path) for path in tmp_path.iterdir()}
    assert run_python(REQUEST + "print(ready(first, second))", TORCH_CONV_CACHE=str(tmp_path)) == "2\n"
    assert {path: state(path) for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("cache", ["0", "/dev/null", "/dev/full/kernels", "/sys/kernel"])
def test_a_kernel_that_no_disk_takes_is_compiled_once(compiler, cache):
    code = REQUEST + "print(ready(first), ops._finish_compiling(), ready(first))"
    assert run_python(code, TORCH_CONV_CACHE=cache).split() == ["0", "0", "1"]


def test_kernels_built_ahead_are_ready(compiler):
    assert run_python(REQUEST + f"print(ready({COLUMN!r}))", TORCH_CONV_CACHE="0") == "1\n"


def test_an_error_is_said_once(compiler, tmp_path):
    code = REQUEST + "for i in range(3):\n    print(ready(wrong), ops._finish_compiling())"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\nimport torch, torch_conv\n{code}"],
        env=os.environ | {"TORCH_CONV_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["0", "0"] * 3
    (line,) = done.stderr.splitlines()
    assert line.startswith("torch_conv: kernel direct2d::no_such_kernel<float> cannot be compiled: ")
    assert line.endswith("; calls use slower kernels instead")
    assert list(tmp_path.iterdir()) == []


def test_the_end_of_a_process_drops_what_has_not_begun(compiler, tmp_path):
    kernels = [COLUMN.replace("false, 3>", f"false, {size}>") for size in range(17, 47)]
    code = REQUEST + f"import time\nprint(ready(*{kernels!r}))\ntime.sleep(0.5)  # the threads begin"
    assert run_python(code, TORCH_CONV_CACHE=str(tmp_path), TORCH_CONV_COMPILE_THREADS="2") == "0\n"
    assert 0 < len(list(tmp_path.iterdir())) < len(kernels)
    assert {path.suffix for path in tmp_path.iterdir()} == {".kernel"}


def test_a_forked_child_waits_for_no_thread_of_its_parent(compiler, tmp_path):
    code = (
        REQUEST
        + """
import os
ready(first, second)
child = os.fork()
if child == 0:
    sys.exit(ops._finish_compiling() + ready(second) + ops._finish_compiling())
print(os.waitpid(child, 0)[1], ops._finish_compiling(), ready(first, second))
"""
    )
    assert run_python(code, TORCH_CONV_CACHE=str(tmp_path)).split() == ["0", "0", "2"]


def test_settings_hold_for_kernels_that_wait(compiler):
    code = (
        REQUEST
        + """
import os
ready(first, second)
os.environ["TORCH_CONV_COMPILE"] = "never"
os.environ["TORCH_CONV_NVRTC_FLAGS"] = "--no-such-option"
ops._finish_compiling()
del os.environ["TORCH_CONV_COMPILE"], os.environ["TORCH_CONV_NVRTC_FLAGS"]
print(ready(first, second))
"""
    )
    assert run_python(code, TORCH_CONV_CACHE="0", TORCH_CONV_COMPILE_THREADS="1") == "2\n"


def test_capabilities_have_kernels_of_their_own(compiler, tmp_path):
    code = REQUEST + "for i in range(2):\n    print(*[ops._compile_in_background(c, [first]) for c in (80, 90)])"
    code += "\n    ops._finish_compiling()"
    assert run_python(code, TORCH_CONV_CACHE=str(tmp_path)) == "0 0\n1 1\n"
    assert len(list(tmp_path.iterdir())) == 2


def test_threads_have_low_priority(compiler):
    code = (
        REQUEST
        + """
import glob
ready(first)
ops._finish_compiling()
stats = [open(path).read().rpartition(")")[2].split() for path in glob.glob("/proc/self/task/*/stat")]
print(sorted(int(stat[16]) for stat in stats)[-1], len([stat for stat in stats if stat[16] == "10"]))
"""
    )
    assert run_python(code, TORCH_CONV_CACHE="0", TORCH_CONV_COMPILE_THREADS="3").split() == ["10", "1"]


def test_a_process_waits_for_another_one_that_compiles_its_kernel(compiler, tmp_path):
    run_python(REQUEST + "ready(first), ops._finish_compiling()", TORCH_CONV_CACHE=str(tmp_path))
    (path,) = tmp_path.iterdir()
    aside = tmp_path.parent / "aside"
    path.rename(aside)
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\nimport torch, torch_conv\n{REQUEST}"
    code += "print(ready(first), flush=True)\nops._finish_compiling()\nprint(ready(first))"
    with Path(f"{path}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = subprocess.Popen(
            [sys.executable, "-c", code],
            env=os.environ | {"TORCH_CONV_CACHE": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert other.stdout.readline() == "0\n"
        time.sleep(0.5)
        assert other.poll() is None and not path.exists()
        aside.rename(path)
        before = state(path)
    assert other.communicate()[0] == "1\n"
    assert state(path) == before  # not compiled again


def test_the_end_of_a_process_waits_for_no_other_one(compiler, tmp_path):
    run_python(REQUEST + "ready(first), ops._finish_compiling()", TORCH_CONV_CACHE=str(tmp_path))
    (path,) = tmp_path.iterdir()
    path.unlink()
    with Path(f"{path}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        started = time.monotonic()
        run_python(REQUEST + "import time\nready(first)\ntime.sleep(0.5)", TORCH_CONV_CACHE=str(tmp_path))
        assert time.monotonic() - started < 25  # a lock is waited for 30 s
        assert not path.exists()  # nor is it compiled twice


# ---- Settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "value"), [("TORCH_CONV_COMPILE", "never"), ("TORCH_CONV_NO_NVRTC", "1")])
def test_without_a_compiler_nothing_is_compiled(name, value):
    code = REQUEST + "print(ready(first), ops._finish_compiling(), ready(first))\nprint(ops._store_report()[0])"
    variables = {"TORCH_CONV_COMPILE": None, name: value}
    numbers, line = run_python(code, TORCH_CONV_CACHE="0", **variables).splitlines()
    assert numbers == "0 0 0"
    assert line == f"compiler: none ({name} is {value})"


@pytest.mark.parametrize("count", ["0", "65", "-1", "2.5", " 4", "many"])
def test_other_numbers_of_threads_are_refused(monkeypatch, count):
    monkeypatch.setenv("TORCH_CONV_COMPILE", "background")
    monkeypatch.setenv("TORCH_CONV_COMPILE_THREADS", count)
    sentence = f"^torch_conv: TORCH_CONV_COMPILE_THREADS must be from 1 to 64, got '{count}'$"
    with pytest.raises(RuntimeError, match=sentence):
        OPS._store_report()


@pytest.mark.parametrize("count", ["", "1", "64"])
def test_numbers_of_threads(compiler, count):
    code = REQUEST + "print(ready(first), ops._finish_compiling(), ready(first))"
    variables = {"TORCH_CONV_COMPILE": None, "TORCH_CONV_COMPILE_THREADS": count}
    assert run_python(code, TORCH_CONV_CACHE="0", **variables).split() == ["0", "0", "1"]


def test_other_settings_are_refused(monkeypatch):
    monkeypatch.setenv("TORCH_CONV_COMPILE", "later")
    sentence = "^torch_conv: TORCH_CONV_COMPILE must be 'background', 'wait' or 'never', got 'later'$"
    with pytest.raises(RuntimeError, match=sentence):
        OPS._store_report()


# ---- Stand-ins in plans, without a GPU ------------------------------------------------------------------------------

H200 = "9.0 132 232448 4.8e12"
NOTE = "; until it is compiled, by "


@pytest.fixture
def planned(compiler, monkeypatch, tmp_path):
    """Explains a call for a GPU that is not there, whose cache is empty: the lines of its plans."""
    if not any(line.endswith("kernels for sm_90") for line in report()):
        pytest.skip("no kernels are built ahead for compute capability 9.0")
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H200)
    monkeypatch.setenv("TORCH_CONV_COMPILE", "background")
    monkeypatch.setenv("TORCH_CONV_CACHE", str(tmp_path))
    return lambda call: torch_conv.explain(call).lines


@pytest.mark.parametrize("name", CALLS)
def test_every_family_has_a_stand_in(planned, name):
    lines = planned(lambda: CALLS[name](lambda t: t))
    assert any(NOTE in line for line in lines), lines
    assert not any("waits for the compiler" in line for line in lines), lines


def test_calls_do_not_wait_unless_told_to(planned, monkeypatch):
    monkeypatch.delenv("TORCH_CONV_COMPILE")
    (line,) = planned(lambda: torch_conv.filter2d(image(*PLANES), taps(9, 11)))
    assert NOTE in line


@pytest.mark.parametrize("name", ON_TENSOR_CORES)
def test_a_stand_in_has_the_bits_of_its_plan(planned, name):
    """On tensor cores no chain stands in."""
    (line,) = planned(lambda: ON_TENSOR_CORES[name](lambda t: t))
    assert "_mma (" in line or "/mma (" in line
    assert "mma_general" in line[line.index(NOTE) :]


def test_a_gradient_of_a_weight_has_a_stand_in(planned):
    maps = image(2, 8, 20, 24)
    answer = OPS._weight_gradient_query("explain", maps, maps, [3, 5], [1, 1], [1, 2])
    assert NOTE + "weight_gradient/general" in answer_text(answer)


def test_no_call_waits(planned):
    """Every 40th call of the sweep of plans."""
    explained, waiting = [], []
    for name, (draw_call, count) in plan_sweep.FUNCTIONS.items():
        for number in range(0, count, 40):
            call = plan_sweep.Described(name)
            draw_call(plan_sweep.Draw(f"{name} {number}"), call)
            with suppress(ValueError, TypeError):  # some draws are refused
                lines = plan_sweep.lines(name, call)
                explained += lines
                waiting += [call.text for line in lines if "waits for the compiler" in line]
    assert waiting == []
    assert len(explained) > 150 and sum(NOTE in line for line in explained) > 40


def test_a_stand_in_that_takes_longer_than_the_compiler_is_refused(planned):
    one = image(1, 2048, 2048)
    window = taps(20, 22)
    (few,) = planned(lambda: torch_conv.filter2d(one.expand(8, -1, -1), window, algorithm="direct"))
    (many,) = planned(lambda: torch_conv.filter2d(one.expand(512, -1, -1), window, algorithm="direct"))
    assert NOTE in few
    assert many.endswith("; the first call waits for the compiler")


def test_kernels_in_the_cache_need_no_stand_in(planned, compiler, monkeypatch, tmp_path):
    call = lambda: torch_conv.filter2d(image(*PLANES), taps(6, 7))  # noqa: E731
    (line,) = planned(call)
    assert NOTE in line
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_KERNELS", "1")
    (line,) = planned(call)
    (kernel,) = [part.removeprefix("; kernel ") for part in [line[line.index("; kernel ") : line.index(NOTE)]]]
    file = "kernels/direct2d/" + ("tile" if "tile" in kernel else "column") + "/kernel.cuh"
    OPS._compile_in_background(90, [f"{file} {kernel}"])
    OPS._finish_compiling()
    assert NOTE not in planned(call)[0]


@pytest.mark.parametrize("mode", ["wait", "never"])
def test_other_settings_have_no_stand_in(planned, monkeypatch, mode):
    monkeypatch.setenv("TORCH_CONV_COMPILE", mode)
    (line,) = planned(lambda: torch_conv.filter2d(image(*PLANES), taps(9, 11)))
    assert "compiled" not in line


# ---- On a GPU -------------------------------------------------------------------------------------------------------

ON_GPU = f"""
sys.path.insert(0, {str(Path(__file__).parent)!r})
import re
from background_calls import CALLS, ON_TENSOR_CORES, image, taps
at = lambda tensor: tensor.to("cuda")
"""


@pytest.mark.cuda
@pytest.mark.parametrize("family", ["CALLS", "ON_TENSOR_CORES"])
def test_the_first_call_has_the_bits_of_the_later_ones(cuda, compiler, tmp_path, family):
    code = (
        ON_GPU
        + f"""
for name, call in {family}.items():
    first_plan = str(torch_conv.explain(call, at))
    first = call(at)
    again = call(at)  # replays the first one, or runs on the compiled kernel
    torch.ops.torch_conv._finish_compiling()
    later_plan = str(torch_conv.explain(call, at))
    later = call(at)
    same = torch.equal(first, later) and torch.equal(again, later) and torch.equal(call(at), later)
    stood_in = "until it is compiled" in first_plan and "compiled" not in later_plan
    wanted = set(re.findall(r"; kernel ([^;\\n]+)", later_plan))
    loaded = set(line[8:].rpartition(", ")[0] for line in torch.ops.torch_conv._store_report())
    repeated = torch.ops.torch_conv._repeated_calls()
    call(at)
    print(name, stood_in, same, wanted <= loaded, torch.ops.torch_conv._repeated_calls() - repeated, sep=": ")
"""
    )
    settings = {"TORCH_CONV_COMPILE": "background", "TORCH_CONV_EXPLAIN_KERNELS": "1"}
    output = run_python(code, TORCH_CONV_CACHE=str(tmp_path), **settings).splitlines()
    names = CALLS if family == "CALLS" else ON_TENSOR_CORES
    assert output == [f"{name}: True: True: True: 1" for name in names]


@pytest.mark.cuda
def test_a_capture_waits_for_its_kernel(cuda, compiler, tmp_path):
    code = (
        ON_GPU
        + """
x, window = at(image(2, 3, 60, 96)), taps(7, 12)
print("until it is compiled" in str(torch_conv.explain(torch_conv.filter2d, x, window)))
expected = torch_conv.filter2d(x, window)  # recorded on a stand-in
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    result = torch_conv.filter2d(x, window)
loaded = [line for line in torch.ops.torch_conv._store_report() if line.endswith(", compiled")]
graph.replay()
print(len(loaded), torch.equal(result, expected))
"""
    )
    output = run_python(code, TORCH_CONV_CACHE=str(tmp_path), TORCH_CONV_COMPILE="background")
    assert output.split() == ["True", "1", "True"]


@pytest.mark.cuda
def test_steps_that_stand_in_for_a_chain_have_no_kernels_compiled(cuda, compiler, tmp_path):
    code = (
        ON_GPU
        + """
call = lambda **more: torch_conv.thin_edges(at(image(2, 3, 60, 97)), 7, 1.5, **more)
print("by other launches" in str(torch_conv.explain(call)))
print("until it is compiled" in str(torch_conv.explain(call, algorithm="separable")))
first = call()
torch.ops.torch_conv._finish_compiling()
print("until it is compiled" in str(torch_conv.explain(call, algorithm="separable")), torch.equal(call(), first))
"""
    )
    output = run_python(code, TORCH_CONV_CACHE=str(tmp_path), TORCH_CONV_COMPILE="background")
    assert output.split() == ["True"] * 4
    assert len(list(tmp_path.iterdir())) == 1
