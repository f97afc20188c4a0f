"""Busy machines: other programs that take the processor, equal calls that vary, and differences that are noise."""

import itertools
import os
from types import SimpleNamespace

import pytest
import torch
from command_line import run

from torch_conv.bench import load, running
from torch_conv.bench.common import Result, Timing
from torch_conv.bench.families import Family
from torch_conv.bench.lines import line
from torch_conv.bench.load import Watch, disturbance, median_and_range, within_noise
from torch_conv.cli import demo

STAT = """\
cpu  9 9 9 9 9 9 9 9 9 9
cpu0 1000000 0 0 0 0 0 0 0 0 0
cpu1 {user} 20 30 4000 500 6 7 8 0 0
cpu2 0 0 0 9000 0 0 0 29 {user} 0
intr 1 2 3
"""


@pytest.fixture
def cores(monkeypatch, tmp_path):
    """A process with two cores of three, whose counters the test sets: busy(user ticks)."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 2})
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(load, "STAT", tmp_path / "stat")
    return lambda user: (tmp_path / "stat").write_text(STAT.format(user=user))


def test_the_time_of_other_programs(cores, monkeypatch):
    """Of this process's cores, without idle time, waits, guests, which are users, and this process itself."""
    clock, own = itertools.count(0, 10), iter([(1, 1, 0, 0, 0), (4, 2, 1, 1, 0)])
    monkeypatch.setattr(load.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(os, "times", lambda: next(own))
    ticks = os.sysconf("SC_CLK_TCK")
    cores(100)
    watch = Watch()
    assert watch.start == (0, (100 + 20 + 30 + 6 + 7 + 8 + 29) / ticks, 2)
    cores(100 + 21 * ticks)
    assert watch.others() == pytest.approx((21 - 6) / 10)


def test_a_system_that_does_not_count(cores):
    assert Watch().others() == 0  # there is no such file
    cores(0)
    watch = Watch()
    sum(range(10**6))  # the process's own time
    assert watch.others() == 0


QUIET, NOISY = [(1.0, 0.1)] * 4 + [(1.0, 9.0)] * 3, [(2.0, 0.2)] * 3 + [(2.0, 0.6)] * 4


@pytest.mark.parametrize(
    ("others", "threads", "measured", "reason"),
    [
        (0.4, 2, QUIET, ""),
        (0.6, 2, QUIET, "other programs took 0.6 of 2 cores"),
        (1.4, 1, QUIET, ""),  # a core is free for them
        (1.6, 1, QUIET, "other programs took 1.6 of 2 cores"),
        (0.4, 2, NOISY, "the times of equal calls vary by 30 %"),
        (2.0, 2, NOISY, "other programs took 2.0 of 2 cores and the times of equal calls vary by 30 %"),
        (0.0, 2, [], ""),
    ],
)
def test_a_busy_machine_is_said_to_be_busy(cores, monkeypatch, others, threads, measured, reason):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    said = disturbance(others, iter(measured))
    assert said == (f"The machine was busy: {reason}. Measure again when it is idle." if reason else "")


def test_times_and_noise():
    assert median_and_range([3.0]) == (3.0, 0.0)
    assert median_and_range([1.0, 9.0, 2.0, 4.0, 3.0]) == (3.0, 2.0)
    assert within_noise((1.0, 0.2), (1.2, 0.2))
    assert not within_noise((1.0, 0.2), (1.3, 0.2))
    assert within_noise((1.25, 0.5), (1.0, 0.1))
    assert not within_noise((1.0, 0.0), (1.1, 0.0))


@pytest.mark.parametrize(("rival", "noise"), [(1.9, True), (2.1, False)])
def test_a_ratio_of_noise_is_no_claim(rival, noise):
    timings = {name: Timing(us, 1.0, 0.0, rounds=5) for name, us in (("torch_conv", 1.0), ("F.conv2d", rival))}
    facts = {"shape": [1], "dtype": "float32", "bytes": 1, "flops": 1, "resident": True, "copy": "add", "series": ""}
    facts |= {"copy_fraction": None, "fma_fraction": None, "correct": True, "left_out": {}}
    row = Result("row", "cpu", **facts, best_rival="F.conv2d", speedup=rival, timings=timings)
    assert f"{rival:.2f} x F.conv2d ({rival} us){', within noise' * noise}" in line(row)
    assert ("within noise" in line(row)) == noise
    assert demo.speedup((rival, 1.0), (1.0, 1.0)) == ("noise" if noise else "2.1 ×")
    assert demo.speedup((0.05, 0.0), (1.0, 0.1)) == "0.05 ×"


@pytest.fixture
def crowd(monkeypatch):
    """Other programs that keep 99 cores busy."""
    seconds = itertools.count()
    monkeypatch.setattr(load, "counters", lambda: (now := next(seconds), 100.0 * now, 1.0 * now))
    return f"The machine was busy: other programs took 99.0 of {len(os.sched_getaffinity(0))} cores"


SMALL = ["--width", 8, "--height", 8, "--depth", 4, *(f"--kernel-radius-{axis}=1" for axis in "xyz")]


@pytest.mark.parametrize(
    "arguments",
    [
        ["volume", "--device", "cpu", "--iterations", 1, *SMALL],
        ["scaling", "--devices", "cpu,cpu", "--sizes", 16],
        ["ladder", "--device", "cpu", "--table", "size", "--image-size", 16, "--iterations", 3],
        ["depthwise3d", "--device", "cpu", "--quick", "--rows", "NCDHW"],
        ["demo", "--device", "cpu"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_program_that_measures_says_so(crowd, monkeypatch, tmp_path, capsys, arguments):
    pytest.importorskip("rich")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "keep_freed_memory", lambda: None)
    if arguments[0] == "demo":
        for package in ("skimage", "cv2", "matplotlib"):
            pytest.importorskip(package)
        monkeypatch.setattr(demo, "JOBS", demo.JOBS[2:3])
        monkeypatch.setattr(demo, "contact_sheet", lambda *_: None)
    assert run(*(["bench"] * (arguments[0] != "demo")), *arguments) == 0
    assert crowd in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_rows_of_gpus_are_timed_by_the_gpu(crowd, monkeypatch, capsys, device):
    """Programs on the CPU do not disturb them."""
    row = {
        "name": "row",
        "device": device,
        "ours_us": 1.0,
        "torch_us": 2.0,
        "ours_iqr_us": 0.0,
        "speedup": 2.0,
        "correct": True,
    }
    monkeypatch.setattr(running, "keep_freed_memory", lambda: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    pair = SimpleNamespace(device=device, name="row", measure=lambda rounds: row)
    running.measure_all(Family("pairs", list, list), [pair], 5, lambda results: None)
    assert (crowd in capsys.readouterr().out) == (device == "cpu")
