"""No call of any operator or function may leak memory, whether it is served or refused."""

import pytest
import torch
from memory_use import heap_bytes, needs_mallinfo
from strategies import make_image, make_window
from test_lazy_bits import WRITERS
from test_opcheck import OPS, SAMPLES

import torch_conv
from torch_conv.dispatch.operators import overload_of
from torch_conv.functional._convolve import packed

pytestmark = needs_mallinfo
CALLS, ROUNDS = 100, 3
SMALLEST = 24  # bytes: malloc hands out no smaller piece


def lost(call):
    """Bytes that a call leaks: the least of some rounds, because a cache grows only once."""
    rounds = []
    for _ in range(1 + ROUNDS):
        before = heap_bytes()
        for _ in range(CALLS):
            call()
        rounds.append((heap_bytes() - before) / CALLS)
    return min(rounds[1:])


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_operators(name):
    call, (args, kwargs) = overload_of(name), SAMPLES[name][0]
    assert lost(lambda: call(*args, **kwargs)) < SMALLEST


REACH = sorted(n for n in SAMPLES if not n.endswith("_split") and n not in WRITERS and not n.startswith("causal"))


@pytest.mark.parametrize("name", [n for n in REACH if "." not in n and not n.startswith("ladder")])
def test_questions(name):
    args, kwargs = SAMPLES[name][0]
    shards, more = SAMPLES[f"{name}_split"][0]
    query, split_query = getattr(OPS, f"_{name}_query"), getattr(OPS, f"_{name}_split_query")
    for question in ("explain", "prepare", "footprint"):
        assert lost(lambda question=question: query(question, *args, **kwargs)) < SMALLEST, question
    for question in ("explain", "prepare", "recorded"):
        assert lost(lambda question=question: split_query(question, *shards, **more)) < SMALLEST, question


TAPS, NUMBERS = torch.ones(3, dtype=torch.float64), torch.rand(4, 5)
DOUBLES = torch.empty(4, 5, dtype=torch.float64)
MAPS = make_image((1, 2, 8, 9)), make_window((2, 1, 3, 3))
ROUTED = [1, 2, 8, 9], [144, 72, 9, 1], [2, 8, 3, 3], [1, 1], None, [1, 1]  # sizes, strides, weight and options
PRIVATE = {  # operators that no public one stands for
    "_stepwise_passes": (NUMBERS, [TAPS, TAPS], [1, 0], [0, 1], [1, 1], [0, 0], 0.0, torch.float32),
    "_stepwise_means": (NUMBERS, [3, 3], [0, 1], [1, 1], [0, 0], 0.0, torch.float32),
    "_stepwise_window": (NUMBERS, torch.ones(3, 3, dtype=torch.float64), [1, 1], 0, 0.0, torch.float32),
    "_conv": (*MAPS, None, packed((2, 1, 0, 1, 2, None))),
    "_conv_ours": (*MAPS, None, 2, 1, 0, 1, 2, "relu"),
    "_conv_route": ("cpu", torch.float32, *ROUTED, 1, "zeros", 0, False, False),
    "_filter2d_by_passes": (MAPS[0], MAPS[1][0, 0]),
    "_filter2d_in_float64": (NUMBERS, torch.ones(3, 3, dtype=torch.float64), "reflect", -1, -1, DOUBLES),
    "_filter2d_separable_in_float64": (NUMBERS, TAPS, TAPS, "reflect", -1, -1, DOUBLES),
    "_box2d_in_float64": (NUMBERS, 3, 3, "reflect", True, -1, -1, DOUBLES),
    "_weight_gradient": (MAPS[0], MAPS[0], [3, 3], [1, 1], [1, 1]),
    "_weight_gradient_or_torch": (MAPS[0], MAPS[0], [3, 3], [1, 1], [1, 1]),
}
# The others take any dtype.
REFUSING = [name for name in PRIVATE if not name.startswith(("_weight_gradient", "_conv_route"))]
# Allocations that no call repeats.
ONCE = (
    *("_borders", "_build_kernels", "_conv_limits", "_deliver", "_filter2d_least_taps", "_handover", "_ptxas"),
    *("_repeated_calls", "_shard", "_store_report", "_compile_in_background", "_finish_compiling"),
)


def test_every_operator_is_called():
    operators = {name.removeprefix("torch_conv::") for name in torch._C._dispatch_get_all_op_names()}
    others = {n for n in operators if n.partition(".")[0].endswith("_query") or n.startswith(ONCE)}
    ours = {n for n in operators - others if "::" not in n}
    assert ours == set(SAMPLES) | set(PRIVATE)


@pytest.mark.parametrize("name", PRIVATE)
def test_private_operators(name):
    call, args = getattr(OPS, name), PRIVATE[name]
    call(*args)
    assert lost(lambda: call(*args)) < SMALLEST


@pytest.mark.parametrize("name", REFUSING)
def test_refused_private_operators(name):
    call, args = getattr(OPS, name), PRIVATE[name]

    def refused():
        try:
            call(args[0].to(torch.complex64), *args[1:])
        except RuntimeError:
            return
        raise AssertionError(name)

    assert lost(refused) < SMALLEST


X, ROW, CUBE = make_image((1, 2, 8, 9)), make_image((1, 2, 9)), make_image((1, 2, 5, 6, 7))
W = make_window((3, 3))
FUNCTIONS = {
    "filter2d": lambda: torch_conv.filter2d(X, W),
    "filter2d, normalized, fft": lambda: torch_conv.filter2d(X, W, normalized=True, algorithm="fft"),
    "filter2d, out": lambda: torch_conv.filter2d(X, W, out=torch.empty_like(X)),
    "filter2d, bytes": lambda: torch_conv.filter2d(X, W, output_dtype=torch.uint8),
    "filter1d": lambda: torch_conv.filter1d(ROW, W[0]),
    "filter2d_separable": lambda: torch_conv.filter2d_separable(X, W[0], W[1]),
    "box_blur": lambda: torch_conv.box_blur(X, 3),
    "gaussian_blur2d": lambda: torch_conv.gaussian_blur2d(X, 3, 1.0),
    "sobel": lambda: torch_conv.sobel(X),
    "laplacian": lambda: torch_conv.laplacian(X, 3),
    "unsharp_mask": lambda: torch_conv.unsharp_mask(X, 3, 1.0),
    "spatial_gradient": lambda: torch_conv.spatial_gradient(X),
    "filter3d": lambda: torch_conv.filter3d(CUBE, make_window((3, 3, 3))),
    "gaussian_blur3d": lambda: torch_conv.gaussian_blur3d(CUBE, 3, 1.0),
    "conv2d": lambda: torch_conv.conv2d(X, W.expand(2, 1, 3, 3), groups=2),
    "conv2d, ours": lambda: torch_conv.conv2d(X, W.expand(2, 1, 3, 3), groups=2, algorithm="ours"),
    "conv2d, torch": lambda: torch_conv.conv2d(X, W.expand(2, 2, 3, 3), algorithm="torch"),
    "conv2d, torch by a word": lambda: OPS.conv2d.padding(X, W[:, :2].expand(2, 2, 3, 2), padding="same"),
    "conv2d, relu": lambda: OPS.conv2d(X, W.expand(2, 1, 3, 3), groups=2, padding=1, activation="relu"),
    "causal_conv1d": lambda: torch_conv.causal_conv1d(ROW, W[:2], activation="silu"),
    "shards": lambda: torch_conv.filter2d(torch_conv.split(X, ["cpu"] * 2), W).gather(),
    "lazy": lambda: torch_conv.box_blur(X, 3, out=torch.zeros(X.shape, dtype=torch.complex64).conj().imag),
}
REFUSED = {
    "a word": lambda: torch_conv.filter2d(X, W, "nowhere"),
    "a number": lambda: torch_conv.filter2d(X, W, stride=0),
    "a list": lambda: OPS.filter2d(X, W, stride=[1, 2, 3]),
    "a dtype": lambda: torch_conv.sobel(X.to(torch.complex64)),
    "output_dtype": lambda: torch_conv.filter2d(X, W, output_dtype=torch.int64),
    "a type": lambda: torch_conv.filter2d(X, W, 3),
    "out": lambda: torch_conv.box_blur(X, 3, out=X),
    "a list of tensors": lambda: OPS.separable_sum2d(X, [W[0]], []),
    "shards": lambda: OPS.filter2d_split([X, X], W, "nowhere"),
    "a question": lambda: OPS._filter2d_query("explain", X, W, "nowhere"),
    "an activation": lambda: torch_conv.causal_conv1d(ROW, W[:2], activation="tanh"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    assert lost(FUNCTIONS[name]) < SMALLEST


@pytest.mark.parametrize("name", REFUSED)
def test_refused_calls(name):
    def call():
        try:
            REFUSED[name]()
        except (RuntimeError, TypeError, ValueError):
            return
        raise AssertionError(name)

    assert lost(call) < SMALLEST
