"""Tensors that torch negates or conjugates lazily (`z.conj().imag`): read by every operator, written as `out`."""

import pytest
import test_opcheck
import torch
from strategies import make_image, make_window
from test_opcheck import OPS
from tolerance import assert_same_bits

import torch_conv
from torch_conv.dispatch.operators import overload_of

WRITERS = {
    schema.name.removeprefix("torch_conv::"): next(
        argument.name for argument in schema.arguments if argument.alias_info and argument.alias_info.is_write
    )
    for schema in torch._C._jit_get_all_schemas()
    if schema.name.startswith("torch_conv::") and schema.is_mutable
}
# Functions of compat.cv2, on the CPU.
OF_FACADES = {
    "_filter2d_in_float64": [
        ((make_image((9, 11)), make_window((3, 4)), "reflect", 1, 1, torch.empty(9, 11, dtype=torch.float64)), {})
    ],
    "_filter2d_separable_in_float64": [
        ((make_image((9, 11)), *make_window((2, 3)), "constant", 1, 1, torch.empty(9, 11, dtype=torch.float64)), {})
    ],
    "_box2d_in_float64": [
        ((make_image((9, 11)), 3, 4, "reflect", True, 1, 1, torch.empty(9, 11, dtype=torch.float64)), {})
    ],
}
SAMPLES = test_opcheck.SAMPLES | OF_FACADES
ON_CUDA_ALONE = {"_deliver", "_deliver_and_repeat"}  # between ranks


def negated(value):
    """A tensor of equal numbers, each stored with the other sign."""
    if isinstance(value, list):
        return [negated(v) for v in value]
    return torch._neg_view(value.neg()) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def copies(value):
    if isinstance(value, list):
        return [copies(v) for v in value]
    return value.clone() if isinstance(value, torch.Tensor) else value


def given(name, sample, device):
    """A sample's arguments by their names, on a device."""
    if name in OF_FACADES and device != "cpu":
        pytest.skip("runs on the CPU alone")
    args, kwargs = SAMPLES[name][sample]
    names = [argument.name for argument in overload_of(name)._schema.arguments]
    arguments = {**dict(zip(names, args, strict=False)), **kwargs}
    on_cpu = {"kernel"} if name.startswith("ladder") else set()

    def move(value):
        if isinstance(value, list):
            return [move(v) for v in value]
        return value.to(device) if isinstance(value, torch.Tensor) else value

    return {n: value if n in on_cpu else move(value) for n, value in arguments.items()}


def flat(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def test_every_operator_that_writes_has_kernels_for_lazy_bits():
    """torch's fallback aborts the process if a written tensor is not among the results."""
    assert len(WRITERS) > 15
    for name in WRITERS:
        for key in ("Negative", "Conjugate"):
            assert torch._C._dispatch_has_kernel_for_dispatch_key(f"torch_conv::{name}", key), (name, key)
    assert WRITERS.keys() - ON_CUDA_ALONE <= SAMPLES.keys()


@pytest.mark.parametrize("name", sorted(WRITERS.keys() - ON_CUDA_ALONE))
def test_writing(device, name):
    """Into a negated tensor, from plain and from negated ones; the second time by recorded launches."""
    for sample in range(len(SAMPLES[name])):
        arguments = given(name, sample, device)
        plain = {n: copies(value) for n, value in arguments.items()}
        results = flat(overload_of(name)(**plain))
        written = WRITERS[name]
        for reads in (copies, negated):
            for _ in range(2):
                lazy = {n: reads(value) for n, value in arguments.items()} | {written: negated(arguments[written])}
                with torch.no_grad():
                    made = flat(overload_of(name)(**lazy))
                assert lazy[written].is_neg()
                assert_same_bits(lazy[written].clone(), plain[written])
                for one, other in zip(made, results, strict=True):
                    if isinstance(other, torch.Tensor):
                        assert_same_bits(one, other)


@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - WRITERS.keys()))
def test_reading(device, name):
    for sample in range(len(SAMPLES[name])):
        arguments = given(name, sample, device)
        lazy = {n: negated(value) for n, value in arguments.items()}
        for one, other in zip(flat(overload_of(name)(**lazy)), flat(overload_of(name)(**arguments)), strict=True):
            assert_same_bits(one, other)


@pytest.mark.parametrize("name", sorted(WRITERS.keys() - ON_CUDA_ALONE))
def test_refused_calls_change_nothing(device, name):
    """Complex numbers, with and without their own bit, together with a negated tensor that would be written."""
    arguments = given(name, 0, device)
    written = WRITERS[name]
    read = next(n for n, value in arguments.items() if n != written and isinstance(value, torch.Tensor))
    for wrong in (arguments[read].to(torch.complex64), arguments[read].to(torch.complex64).conj()):
        lazy = arguments | {read: wrong, written: negated(arguments[written])}
        before = lazy[written].clone()
        with pytest.raises(RuntimeError, match="must have dtype"):
            overload_of(name)(**lazy)
        assert_same_bits(lazy[written].clone(), before)
    whole = arguments | {written: arguments[written].to(torch.complex64).conj()}
    with pytest.raises(RuntimeError, match="dtype"):
        overload_of(name)(**whole)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, out: torch_conv.filter2d(x, make_window((3, 3), device=x.device), out=out),
        lambda x, out: torch_conv.filter2d(x, make_window((3, 3), device=x.device), algorithm="fft", out=out),
        lambda x, out: torch_conv.filter1d(x, make_window((3,), device=x.device), out=out),
        lambda x, out: torch_conv.box_blur(x, 3, out=out),
        lambda x, out: torch_conv.gaussian_blur2d(x, 5, 1.0, out=out),
        lambda x, out: torch_conv.sobel(x, out=out),
        lambda x, out: torch_conv.laplacian(x, 3, out=out),
        lambda x, out: torch_conv.unsharp_mask(x, 5, 1.0, out=out),
    ],
)
def test_functions(device, call):
    """A user's case: the imaginary part of a conjugate."""
    image = make_image((20, 21), device=device)
    out = torch.zeros(20, 21, dtype=torch.complex64, device=device).conj().imag
    assert out.is_neg()
    result = call(image, out)
    assert result is out
    assert_same_bits(out.clone(), call(image, torch.empty_like(image)))
    parts = torch.complex(image, -image).conj()
    assert_same_bits(call(parts.imag, torch.empty_like(image)), out.clone())


def test_out_must_still_lie_apart(device):
    image = make_image((9, 9), device=device)
    with pytest.raises(ValueError, match="^box_blur: out must not overlap input$"):
        torch_conv.box_blur(image, 3, out=torch._neg_view(image))
    with pytest.raises(ValueError, match="out must not overlap itself"):
        torch_conv.box_blur(image, 3, out=negated(image)[:1].expand(9, 9))
    state = negated(make_image((2, 3, 1), device=device)).expand(2, 3, 5)
    with pytest.raises(RuntimeError, match="conv_state must not overlap itself"):
        OPS.causal_conv1d_update(make_image((2, 3), device=device), state, make_window((3, 4), device=device))


def test_a_state_in_rows_of_a_cache(device):
    """The rows that a step does not name keep their numbers."""
    x, weight = make_image((2, 3), device=device), make_window((3, 4), device=device)
    rows = torch.tensor([3, 1], dtype=torch.int32, device=device)
    plain = make_image((5, 3, 6), device=device)
    lazy = negated(plain)
    made = torch_conv.causal_conv1d_update(x, lazy, weight, conv_state_indices=rows)
    assert_same_bits(made, torch_conv.causal_conv1d_update(x, plain, weight, conv_state_indices=rows))
    assert_same_bits(lazy.clone(), plain)
