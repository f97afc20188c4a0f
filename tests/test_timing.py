"""Calls that no CUDA graph can hold: the device's time alone, on a GPU and on one that is played."""

import time
from collections import Counter
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import cycle, islice
from statistics import median

import pytest
import torch

from torch_conv.bench import timing
from torch_conv.bench.sampling import in_turn, known


class Machine:
    """A host and a device with one stream, by their clocks in seconds."""

    def __init__(self):
        self.host = self.device = 0.0  # the time that it is, and when the device will have done all
        self.spins = []

    def launch(self, device, host):
        self.host += host
        self.device = max(self.device, self.host) + device

    def wait(self):
        self.host = max(self.host, self.device)

    def sleep(self, cycles):
        self.spins.append(cycles)
        self.launch(cycles / 1.7e9, 5e-6)


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.at = max(machine.device, machine.host)

        def query(self):
            return machine.host >= self.at

        def synchronize(self):
            machine.host = max(machine.host, self.at)

        def elapsed_time(self, end):
            return 1e3 * (end.at - self.at)

    for name, value in {
        "Event": Event,
        "_sleep": machine.sleep,
        "synchronize": machine.wait,
        "device": lambda _: nullcontext(),
        "current_device": lambda: 0,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    return machine


FAST_HOSTS = [(5e-6, 40e-6), (5e-6, 400e-6), (1e-3, 40e-6), (50e-3, 1e-3)]
SLOW_HOSTS = [(5e-6, 4e-3), (1e-3, 12e-3), (5e-6, 30e-3), (5e-3, 38e-3)]  # of the last two only one call fits


@pytest.mark.parametrize(("device", "host"), [*FAST_HOSTS, *SLOW_HOSTS])
def test_the_device_alone_is_timed(machine, device, host):
    sample = timing.sampler(lambda: machine.launch(device, host), "cuda", graph=False)
    assert sample() == pytest.approx(device)


def test_a_single_call_behind_each_kernel_is_repeated(machine):
    """The first of three finds caches cold, as another candidate left them; it is not their median."""
    cold = iter([])
    sample = timing.sampler(lambda: machine.launch(next(cold, 5e-3), 30e-3), "cuda", graph=False)
    cold = iter([9e-3])
    assert sample() == pytest.approx(5e-3)


def test_a_host_slower_than_the_longest_kernel_is_timed(machine):
    sample = timing.sampler(lambda: machine.launch(5e-6, 50e-3), "cuda", graph=False)
    machine.spins.clear()
    assert sample() == pytest.approx(50e-3, rel=0.01)
    assert set(machine.spins) == {0}


def test_one_slow_moment_of_the_host_does_not_count(machine):
    hosts = iter([40e-6] * 1000)
    sample = timing.sampler(lambda: machine.launch(5e-6, next(hosts)), "cuda", graph=False)
    hosts = iter([40e-6] * 20 + [50e-3] + [40e-6] * 1000)
    assert sample() == pytest.approx(5e-6)


def test_a_call_that_waits_is_timed_with_its_host(machine):
    def call():
        machine.launch(5e-6, 40e-6)
        machine.wait()

    sample = timing.sampler(call, "cuda", graph=False)
    machine.spins.clear()
    assert sample() == pytest.approx(45e-6, rel=0.1)
    assert set(machine.spins) == {0}


def test_queues_go_over_all_buffers(machine):
    """A queue holds fewer calls than there are buffers, and the next one goes on where it stopped."""
    made = []

    def call(i):
        machine.launch(5e-6, 40e-6)
        made.append(i)

    sample = timing.sampler([partial(call, i) for i in range(40)], "cuda", graph=False, warmup=1)
    before = len(made)
    sample()
    assert len(made) == before + timing.QUEUES * timing.ENQUEUED
    assert made == [i % 40 for i in range(len(made))]


def test_noisy_samples_go_on():
    """While a median is not known, up to so many times the rounds, and with it all that have as many rounds."""
    noisy = [1.0, 1.2]
    series = {"still": [1.0], "slow": [2.0, 2.01], "once": [3.0], "noisy": noisy, "settles": [*noisy, 1.1, *[1.0] * 99]}
    rounds = dict.fromkeys(series, 5) | {"slow": 2, "once": 1}
    entered = []

    @contextmanager
    def context(name):
        entered.append(name)
        yield

    def taken(longer, *left_out):
        entered.clear()
        samplers = {name: partial(next, cycle(values)) for name, values in series.items() if name not in left_out}
        own = {name: rounds[name] for name in samplers}
        samples = in_turn(samplers, {name: partial(context, name) for name in samplers}, own, longer)
        assert all(got == list(islice(cycle(series[name]), len(got))) for name, got in samples.items())
        return {name: len(got) for name, got in samples.items()}

    assert taken(1) == rounds
    assert taken(3) == rounds | {"still": 15, "noisy": 15, "settles": 15}
    assert Counter(entered) == rounds | {"still": 15, "noisy": 15, "settles": 15}
    assert taken(3, "noisy") == {"still": 8, "slow": 2, "once": 1, "settles": 8}
    more = [entered[i : i + 2] for i in range(len(entered) - 6, len(entered), 2)]
    assert all(sorted(each) == ["settles", "still"] for each in more)
    series["slow"] = noisy  # it has few rounds: it goes on in the rounds of others
    assert taken(3, "noisy", "settles") == {"still": 6, "slow": 6, "once": 1}


def test_a_drift_meets_all_alike():
    """A clock that falls after the rounds that are for all: one candidate alone would seem twice as slow."""
    slower, noise = iter([1.0] * 10 + [2.0] * 99), cycle([1.0, 1.2])
    samplers = {"still": lambda: next(slower), "noisy": lambda: next(noise) * next(slower)}
    samples = in_turn(samplers, dict.fromkeys(samplers, nullcontext), dict.fromkeys(samplers, 5), 3)
    assert 1 <= median(samples["noisy"]) / median(samples["still"]) <= 1.2


def test_precision_at_which_a_median_is_known():
    """0.93 of 0.032 over the root of 9 is just below 1 %, of 0.034 above; a single sample is all there will be."""
    for spread, enough in ((0.032, True), (0.034, False)):
        quarters = [1 - spread / 2] * 3 + [1.0] * 3 + [1 + spread / 2] * 3
        assert known(quarters) == enough
    assert known([1.0])


@pytest.mark.cuda
@pytest.mark.parametrize("graph", [True, False])
def test_calls_that_refuse_capture_are_timed_without_their_host(cuda, graph):
    image = torch.rand(4096, 4096, device=cuda)

    def refusing():
        result = image + 1
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError("not in a graph")
        end = time.perf_counter() + 8e-3
        while time.perf_counter() < end:
            pass
        return result

    sample = timing.sampler(refusing, cuda, graph=graph)
    # Some 45 us, or a few times that on a GPU that others use; no memory reads and writes 64 MiB in 10.
    assert 1e-5 < median(sample() for _ in range(7)) < 4e-3


def test_timed_calls_take_turns():
    made = []
    times = timing.time_call([lambda: made.append("a"), lambda: made.append("b")], "cpu", repeats=4, warmup=1)
    assert len(times) == 4
    assert min(times) > 0
    assert made[::2] == ["a"] * (len(made) // 2)
    assert made[1::2] == ["b"] * (len(made) // 2)


def test_the_cpu_is_warm_before_the_first_sample(monkeypatch):
    timing.warm_cpu.cache_clear()
    monkeypatch.setattr(timing, "WARMING_SECONDS", 0.05)
    added, add = [], torch.add
    monkeypatch.setattr(torch, "add", lambda *args, **kwargs: added.append(len(made)) or add(*args, **kwargs))
    made = []
    timing.time_call(lambda: made.append("a"), "cpu", repeats=2)
    assert added and not any(added)  # all before the first call
    count = len(added)
    timing.time_call(lambda: made.append("b"), "cpu", repeats=2)
    assert len(added) == count


@pytest.mark.cuda
def test_timing_without_capture(cuda):
    image = torch.rand(32, 32, device=cuda)
    captured = timing.time_call(lambda: image + 1, cuda, repeats=3)
    looped = timing.time_call(lambda: (image + 1).sum().item(), cuda, repeats=3)  # synchronises: cannot be captured
    assert 0 < max(captured) < min(looped)
