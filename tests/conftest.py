"""Fixtures and the hypothesis profiles that every test file shares.

Tests import the package of the checkout if it is built, else the installed one.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILT = (ROOT / "torch_conv" / "_C.abi3.so").exists()
if BUILT:
    sys.path.insert(0, str(ROOT))
else:  # `python -m pytest` looks in the current folder first
    sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != ROOT]
if str(ROOT / "tests") not in sys.path:
    sys.path.insert(0, str(ROOT / "tests"))

# Processes that share the cores (pytest-xdist) and the programs they start have as many threads as there are cores.
if workers := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // int(workers))))

import fast_lane  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

import torch_conv  # noqa: E402, F401

# Programs that are started in the checkout, like examples/, take its package.
needs_built_checkout = pytest.mark.skipif(not BUILT, reason="the checkout is not built")

# The same examples in every run; `--hypothesis-profile=explore` looks for new ones.
settings.register_profile(
    "suite", deadline=None, max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

# `nohup` lets a process and its children ignore this signal, which tests send.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A variable of the shell must not change the tests.
for name in (
    "TORCH_CONV_VARIANT",
    "TORCH_CONV_NO_TMA",
    "TORCH_CONV_NO_GRAPH",
    "TORCH_CONV_EXPLAIN_FOR",
    "TORCH_CONV_COMPILE",
    "TORCH_CONV_COMPILE_THREADS",
    "TORCH_CONV_NO_NVRTC",
):
    os.environ.pop(name, None)


# Three times the ten minutes that a slow test may take, as in pyproject.toml for the others.
SLOW_TIMEOUT = 1800


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="minutes instead of all tests: see tests/fast_lane.py")
    parser.addoption(
        "--compile",
        choices=["background", "wait", "never"],
        default="wait",
        help="TORCH_CONV_COMPILE of the tests (default: wait, so that each runs on the kernel that it asks for)",
    )


def pytest_configure(config: pytest.Config) -> None:
    os.environ["TORCH_CONV_COMPILE"] = config.getoption("--compile")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--fast"):
        items[:], left_out = fast_lane.fast(items)
        config.hook.pytest_deselected(items=left_out)
    if not config.pluginmanager.hasplugin("timeout"):
        return
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT))


def pytest_report_header() -> str:
    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU"
    return f"torch {torch.__version__}, {gpu}, {torch.get_num_threads()} threads"


# Session scope keeps hypothesis content (it refuses function-scoped fixtures) and runs one device after the other.
@pytest.fixture(scope="session", params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    return str(request.param)


@pytest.fixture(scope="session")
def cuda() -> str:
    """For tests that mean nothing on a CPU; such a test is marked `cuda` itself."""
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    return "cuda"


@pytest.fixture
def own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls run on the kernels of their plans, whatever `--compile` says: others need more launches and memory."""
    monkeypatch.setenv("TORCH_CONV_COMPILE", "wait")


@pytest.fixture
def without_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    """TF32 in cuDNN rounds sums to a thousandth."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.fixture
def without_vmap_fallback() -> Iterator[None]:
    """torch.vmap raises where an operator has no rule, instead of calling it for each example."""
    torch._C._functorch._set_vmap_fallback_enabled(False)
    yield
    torch._C._functorch._set_vmap_fallback_enabled(True)


@pytest.fixture
def compiler() -> str:
    """The compiler's name; tests that compile need one, but no GPU."""
    (line,) = (line for line in torch.ops.torch_conv._store_report() if line.startswith("compiler: "))
    if line.startswith("compiler: none"):
        pytest.skip("no compiler (NVRTC)")
    return line.removeprefix("compiler: ")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder in which no variable names the cache of kernels."""
    for name in ("TORCH_CONV_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def threads() -> Iterator[None]:
    """Lets a test change torch's thread count and puts it back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def pinned(monkeypatch):
    """run(variant, f): f's result with that variant pinned, None where the variant cannot serve the call."""

    def run(variant, f):
        monkeypatch.setenv("TORCH_CONV_VARIANT", variant)
        try:
            return f()
        except (TypeError, ValueError, RuntimeError) as refusal:  # of a function, or of an operator
            assert f": variant '{variant}' cannot serve this call" in str(refusal)
            return None
        finally:
            monkeypatch.delenv("TORCH_CONV_VARIANT")

    return run
