"""The caches of calls change no result and no refusal, and hold a limited number of bytes."""

import contextlib
import gc
import inspect

import numpy as np
import pytest
import torch
from public_calls import calls, number_arguments
from strategies import make_image
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_conv
from torch_conv.functional import _eager, _kernel_cache

MOST_BYTES = 64 << 20
GIVEN = calls()


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@pytest.fixture
def empty_caches():
    """A function that empties the caches, which are empty at first: no test uses another test's windows."""

    def clear():
        _kernel_cache._make_once.cache_clear()
        _eager._prepared.clear()
        _eager._routes.clear()

    clear()
    return clear


def outcome(name, **more):
    """A function's results, or the text of its refusal."""
    given = {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in GIVEN[name].items()}
    try:
        found = getattr(torch_conv, name)(**(given | more))
    except (TypeError, ValueError) as refusal:
        return type(refusal), str(refusal)
    return found if isinstance(found, tuple) else (found,)


def same(found, expected):
    if isinstance(found[0], torch.Tensor) and isinstance(expected[0], torch.Tensor):
        return all(
            a.device == b.device and a.dtype == b.dtype and torch.equal(a, b)
            for a, b in zip(found, expected, strict=True)
        )
    return found == expected


AROUND = {
    "another default device": lambda: torch.device("meta"),
    "another default dtype": lambda: default_dtype(torch.float64),
    "a narrow default dtype": lambda: default_dtype(torch.bfloat16),
    "inference mode": torch.inference_mode,
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", GIVEN)
def test_results_do_not_depend_on_what_stands_around_a_call(empty_caches, name, around):
    expected = outcome(name)
    empty_caches()
    with AROUND[around]():
        assert same(outcome(name), expected)
    assert same(outcome(name), expected)


def by_func_grad(call, tensors):
    def total(*given):
        found = call(*given)
        return (found[0] if isinstance(found, tuple) else found).sum()

    torch.func.grad(total)(*tensors)


def by_functionalize(call, tensors):
    torch.func.functionalize(call)(*tensors)


def by_vmap(call, tensors):
    torch.func.vmap(call)(*[torch.stack([t, t]) for t in tensors])


def with_fakes(call, tensors):
    with FakeTensorMode() as mode:
        call(*[mode.from_tensor(t) for t in tensors])


def on_meta(call, tensors):
    call(*[t.to("meta") for t in tensors])


@pytest.mark.parametrize("first", [by_func_grad, by_functionalize, by_vmap, with_fakes, on_meta])
@pytest.mark.parametrize("name", [name for name in GIVEN if name != "causal_conv1d_update"])
def test_no_wrapped_window_is_remembered(empty_caches, name, first):
    expected = outcome(name)
    empty_caches()
    tensors = {key: value for key, value in GIVEN[name].items() if isinstance(value, torch.Tensor)}
    first(
        lambda *given: getattr(torch_conv, name)(**(GIVEN[name] | dict(zip(tensors, given, strict=True)))),
        tensors.values(),
    )
    assert same(outcome(name), expected)
    image = next(iter(tensors))
    wanted = GIVEN[name][image].clone().requires_grad_()
    found = outcome(name, **{image: wanted})[0]
    assert found.requires_grad
    found.sum().backward()
    kept = [t for made in remembered_tensors() for t in ([made] if isinstance(made, torch.Tensor) else made)]
    assert all(
        type(t) is torch.Tensor and t.is_cpu and not torch._C._functorch.is_functorch_wrapped_tensor(t) for t in kept
    )


def remembered_tensors():
    """The objects that the cache of windows refers to, without its own dictionary."""
    return [
        made
        for store in gc.get_referents(_kernel_cache._make_once)
        if isinstance(store, dict)
        for made in store.values()
        if isinstance(made, (torch.Tensor, list))
    ]


ODD = {
    "numpy's integer": np.int64,
    "numpy's float64": np.float64,
    "numpy's float32": np.float32,
    "numpy's truth": np.bool_,
    "an array of none": lambda n: np.array(n),
    "an array": lambda n: np.array([n, n]),
    "a list": lambda n: [n, n],
    "a tuple": lambda n: (n, n),
    "a tuple of floats": lambda n: (float(n), float(n)),
    "a tuple of numpy's": lambda n: (np.int64(n), np.float64(n)),
    "a tuple of truths": lambda n: (True, True),
    "a float": float,
    "a truth": bool,
    "a tensor": torch.tensor,
    "a tuple of tensors": lambda n: (torch.tensor(n), torch.tensor(n)),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", GIVEN)
def test_refusals_do_not_depend_on_earlier_calls(empty_caches, name):
    """A value is neither accepted nor refused because an earlier call had an equal number."""
    parameters = inspect.signature(getattr(torch_conv, name)).parameters
    for argument in number_arguments(name):
        number = GIVEN[name].get(argument, parameters[argument].default)
        if not isinstance(number, (int, float)):
            number = 3 if argument == "kernel_size" else 1
        plain = (number, float(number), (number, number), [number, number], (float(number), float(number)))
        for odd in ODD.values():
            empty_caches()
            first, second = (outcome(name, **{argument: odd(number)}) for _ in range(2))
            for other in plain:
                outcome(name, **{argument: other})
            third = outcome(name, **{argument: odd(number)})
            assert same(first, second) and same(first, third), (argument, odd(number))


def test_value_of_a_tensor_may_change(empty_caches):
    image, window = make_image((1, 2, 12, 12)), torch.ones(2, 1, 3, 3)
    stride, amount = torch.tensor(1), torch.tensor(1.0)
    for value in (1, 2):
        stride.fill_(value), amount.fill_(value)
        found = torch_conv.conv2d(image, window, stride=stride, groups=2)
        assert torch.equal(found, torch_conv.conv2d(image, window, stride=value, groups=2))
        assert torch.equal(
            torch_conv.unsharp_mask(image, 3, 1.0, amount=amount),
            torch_conv.unsharp_mask(image, 3, 1.0, amount=float(value)),
        )


def tensor_bytes() -> int:
    gc.collect()
    sizes = {}
    for t in gc.get_objects():
        if issubclass(type(t), torch.Tensor):
            with contextlib.suppress(RuntimeError, NotImplementedError):  # other tests leave tensors without memory
                sizes[t.data_ptr()] = t.untyped_storage().nbytes()
    return sum(sizes.values())


def test_windows_are_remembered_by_bytes(empty_caches):
    image = make_image((2, 2))
    before = tensor_bytes()
    for k in range(3, 1025, 8):
        torch_conv.laplacian(image, k)
    assert tensor_bytes() - before <= _kernel_cache.MOST_BYTES <= MOST_BYTES


def test_many_small_windows_are_remembered_by_bytes(empty_caches):
    image = make_image((2, 2))
    before, objects = tensor_bytes(), len(gc.get_objects())
    for i in range(20000):
        torch_conv.gaussian_blur2d(image, 3, 1.0 + i / 1000)
    assert tensor_bytes() - before <= _kernel_cache.MOST_BYTES
    assert len(gc.get_objects()) - objects < 100_000
