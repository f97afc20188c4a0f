"""torch_conv.compat.scipy_ndimage has scipy.ndimage's forms of arguments and results, and refuses in one sentence."""

import inspect

import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
from refusals import refuses
from scipy_cases import DTYPES, agree, compare, noise, scipys_warnings

from torch_conv.compat import scipy_ndimage as ours

pytestmark = scipys_warnings


@pytest.mark.parametrize("name", ours.__all__)
def test_signatures_are_scipys(name):
    def plain(function):
        return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]

    assert plain(getattr(ours, name)) == plain(getattr(ndi, name))


FORMS = {
    "transposed": lambda x: x.T,
    "reversed": lambda x: x[::-1, ::-2],
    "every other": lambda x: x[:, ::2],
    "broadcast": lambda x: np.broadcast_to(x[0], (4, x.shape[1])),
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
    "Fortran": np.asfortranarray,
    "list": lambda x: x.tolist(),
    "empty": lambda x: x[:0],
    "empty lines": lambda x: x[:, :0],
    "one pixel": lambda x: x[:1, :1],
    "one row, flipped": lambda x: x[:1][::-1],
    "one column, flipped": lambda x: x[:, :1][:, ::-1],
    "one pixel, flipped": lambda x: x[:1, :1][::-1, ::-1],
    "empty, flipped": lambda x: x[:0][::-1],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "uint16", "float32", "float64"])
@pytest.mark.filterwarnings("error")
def test_every_form_of_an_array(form, dtype):
    image = FORMS[form](noise((6, 8), dtype))
    agree("correlate", image, [[1, 2], [3, 4], [0.5, 6]])
    agree("correlate", image, [[0.7]], output="int32")
    agree("convolve1d", image, [1, 2, 0.5], 0)
    agree("gaussian_filter", image, 1)
    agree("gaussian_filter", image, 0)
    agree("uniform_filter", image, 3)
    agree("sobel", image, mode="mirror")
    agree("laplace", image)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "weights", [[1, 2.5, 3], (1, 2, 3), np.arange(3)[::-1], np.float32([1, 2, 3]), np.array([True] * 3)]
)
def test_every_form_of_a_window(weights):
    image = noise((6, 8), "float64")
    for form in (weights, torch.tensor(np.array(weights)), torch.tensor(np.array(weights)).to(torch.bfloat16)):
        expected = np.asarray(weights, dtype=np.float64)
        compare(ours.correlate1d(image, form), ndi.correlate1d(image, expected), 100)
        compare(ours.convolve1d(image, form), ndi.convolve1d(image, expected), 100)
        compare(ours.correlate(image, form, axes=0), ndi.correlate(image, expected, axes=0), 100)


def test_images_without_axes():
    for image in (np.array(3.0), 3, np.uint8(7)):
        for name, args in [("correlate", (2.5,)), ("convolve", (np.array(-1),)), ("gaussian_filter", (1,))]:
            agree(name, image, *args)
        agree("uniform_filter", image)
        agree("laplace", image)
        agree("gaussian_laplace", image, 1)
        agree("gaussian_gradient_magnitude", image, 1, output="float32")
    got = ours.gaussian_filter(torch.tensor(3.0), 1)
    assert isinstance(got, torch.Tensor)
    assert got.shape == ()


CALLS = {
    "correlate": ([[1, 2, 0], [3, 4, 0.5]],),
    "convolve": ([[1, 2, 0], [3, 4, 0.5]],),
    "correlate1d": ([0.5, 1, 2],),
    "convolve1d": ([0.5, 1, 2],),
    "gaussian_filter": (1.1,),
    "gaussian_filter1d": (1.1,),
    "uniform_filter": (3,),
    "uniform_filter1d": (3,),
    "sobel": (),
    "prewitt": (),
    "laplace": (),
    "gaussian_laplace": (1.1,),
    "gaussian_gradient_magnitude": (1.1,),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_tensors_give_tensors(device, name, dtype):
    image = noise((6, 8), dtype)
    tensor = torch.from_numpy(image).to(device)
    got = getattr(ours, name)(tensor, *CALLS[name], mode="wrap")
    assert isinstance(got, torch.Tensor)
    assert got.device == tensor.device
    assert got.dtype == tensor.dtype
    compare(got.cpu().numpy(), getattr(ndi, name)(image, *CALLS[name], mode="wrap"), 100)
    assert torch.equal(tensor.cpu(), torch.from_numpy(image))
    turned = getattr(ours, name)(tensor.cpu().T.to(device), *CALLS[name])
    compare(turned.cpu().numpy(), getattr(ndi, name)(image.T, *CALLS[name]), 100)


@pytest.mark.parametrize("output", [torch.float32, np.float32, np.dtype("f4"), "float32", "f"])
@pytest.mark.parametrize("name", CALLS)
def test_output_names_a_dtype(device, name, output):
    image = noise((6, 8), "uint8")
    expected = getattr(ndi, name)(image, *CALLS[name], output=np.float32)
    compare(getattr(ours, name)(image, *CALLS[name], output=output), expected)
    got = getattr(ours, name)(torch.from_numpy(image).to(device), *CALLS[name], output=output)
    assert got.dtype == torch.float32
    compare(got.cpu().numpy(), expected)


@pytest.mark.parametrize("output", [float, int, bool, ">i2", np.dtype(">f8"), np.longlong])
@pytest.mark.parametrize("name", ["correlate", "gaussian_filter", "uniform_filter"])
def test_output_is_of_python_or_of_another_byte_order(name, output):
    got = agree(name, noise((6, 8), "int16"), *CALLS[name], output=output)
    assert got.dtype == np.dtype(output)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "bool", "float32", "float64"])
@pytest.mark.parametrize("name", CALLS)
def test_output_receives_the_result(device, name, dtype):
    image = noise((6, 8), "int16")
    expected = getattr(ndi, name)(image, *CALLS[name], output=np.dtype(dtype))
    for array in (np.ones((6, 8), dtype), np.ones((8, 6), dtype).T, np.ones((6, 16), dtype)[:, ::-2]):
        assert getattr(ours, name)(image, *CALLS[name], output=array) is array
        compare(array, expected)
        array[...] = 1
        assert getattr(ours, name)(torch.from_numpy(image).to(device), *CALLS[name], output=array) is array
        compare(array, expected)
    tensor = torch.ones(8, 6, dtype=torch.from_numpy(expected).dtype, device=device).T
    assert getattr(ours, name)(image, *CALLS[name], output=tensor) is tensor
    compare(tensor.cpu().numpy(), expected)
    tensor.fill_(1)
    assert getattr(ours, name)(torch.from_numpy(image).to(device), *CALLS[name], output=tensor) is tensor
    compare(tensor.cpu().numpy(), expected)


@pytest.mark.parametrize("name", CALLS)
def test_output_may_be_the_input(name):
    image = noise((6, 8), "float64")
    expected = getattr(ndi, name)(image, *CALLS[name])
    tensor = torch.from_numpy(image.copy())
    assert getattr(ours, name)(tensor, *CALLS[name], output=tensor) is tensor
    compare(tensor.numpy(), expected)
    assert getattr(ours, name)(image, *CALLS[name], output=image) is image
    compare(image, expected)


@pytest.mark.parametrize("name", [n for n in CALLS if not n.startswith("uniform")])
@pytest.mark.filterwarnings("error")
def test_gradients_pass_through(name):
    """The slope along a direction, of functions that are linear or nearly so over this step."""
    image = torch.from_numpy(noise((5, 6), "float64")).requires_grad_()
    direction = torch.from_numpy(noise((5, 6), "float64", seed=9)) * 1e-6
    getattr(ours, name)(image, *CALLS[name]).square().sum().backward()
    with torch.no_grad():
        ahead = getattr(ours, name)(image + direction, *CALLS[name]).square().sum()
        behind = getattr(ours, name)(image - direction, *CALLS[name]).square().sum()
    torch.testing.assert_close((image.grad * direction).sum(), (ahead - behind) / 2, rtol=1e-6, atol=1e-12)
    assert not getattr(ours, name)(image, *CALLS[name], output=torch.int16).requires_grad


X = np.arange(12.0).reshape(3, 4)
SQUARE = np.ones((3, 3))


def same_refusal(name, *args, **kwargs):
    """Both libraries refuse, with the same type and the same words."""
    with pytest.raises(Exception) as theirs:
        getattr(ndi, name)(*args, **kwargs)
    with pytest.raises(Exception) as refusal:
        getattr(ours, name)(*args, **kwargs)
    assert (refusal.type, str(refusal.value)) == (theirs.type, str(theirs.value))


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("gaussian_filter", (X, 1), {"mode": "bad"}),
        ("correlate", (X, SQUARE), {"mode": "symmetric"}),
        ("correlate", (X, SQUARE), {"mode": 3}),
        ("correlate", (X, SQUARE), {"mode": ["wrap", "wrap"]}),
        ("correlate1d", (X, [1]), {"mode": ["wrap"]}),
        ("correlate1d", (X, [1]), {"mode": None}),
        ("uniform_filter", (X,), {"mode": ["wrap"]}),
        ("sobel", (X,), {"mode": ["wrap"]}),
        ("laplace", (X,), {"mode": "no"}),
        ("correlate1d", (X, [1, 2, 3]), {"origin": 2}),
        ("correlate1d", (X, [1, 2]), {"origin": 1}),
        ("correlate1d", (X, [1, 2, 3]), {"origin": 1.0}),
        ("convolve1d", (X, [1, 2]), {"origin": 1}),
        ("correlate", (X, SQUARE), {"origin": 2}),
        ("correlate", (X, SQUARE), {"origin": (0, 1, 0)}),
        ("convolve", (X, SQUARE), {"origin": (0, -2)}),
        ("correlate", (X, SQUARE), {"origin": 1.0}),
        ("uniform_filter1d", (X, 3), {"origin": 2}),
        ("uniform_filter", (X, 3), {"origin": [0, -2]}),
        ("uniform_filter1d", (X, 0), {}),
        ("uniform_filter1d", (X, -1), {}),
        ("uniform_filter1d", (X, 3.0), {}),
        ("uniform_filter", (X, [3]), {}),
        ("correlate1d", (X, [1], 2), {}),
        ("correlate1d", (X, [1], 0.0), {}),
        ("uniform_filter1d", (X, 3, -3), {}),
        ("gaussian_filter1d", (X, 1, 5), {}),
        ("sobel", (X, 2), {}),
        ("prewitt", (X, -3), {}),
        ("sobel", (np.array(1.0),), {}),
        ("correlate1d", (np.array(1.0), [1]), {}),
        ("correlate", (X, SQUARE), {"axes": (0, 2)}),
        ("correlate", (X, [1, 2]), {"axes": -1}),
        ("correlate", (X, SQUARE), {"axes": (0,)}),
        ("gaussian_filter", (X, 1), {"axes": (0, 0)}),
        ("gaussian_filter", (X, 1), {"axes": 7}),
        ("gaussian_filter", (X, 1), {"axes": 1.5}),
        ("gaussian_filter", (X, 1), {"axes": len}),
        ("laplace", (X,), {"axes": (1, -1)}),
        ("correlate", (X, [1, 2, 3]), {}),
        ("convolve", (X, np.ones((3, 3, 3))), {}),
        ("correlate", (X, np.ones((3, 0))), {}),
        ("correlate1d", (X, []), {}),
        ("correlate1d", (X, [[1]]), {}),
        ("convolve1d", (X, []), {}),
        ("correlate1d", (X, 3.0), {}),
        ("gaussian_filter", (X, [1]), {}),
        ("gaussian_filter", (X, 1, -1), {}),
        ("gaussian_filter1d", (X, -1), {}),
        ("gaussian_filter1d", (X, 0), {}),
        ("gaussian_filter1d", (X, 1), {"radius": 1.5}),
        ("gaussian_filter", (X, 1), {"radius": -1}),
        ("gaussian_laplace", (X, [1, 2, 3]), {}),
        ("gaussian_laplace", (X, 1), {"reach": 2}),
        ("gaussian_gradient_magnitude", (X, [1]), {"axes": (0,)}),
        ("correlate", (X, SQUARE), {"output": np.zeros((4, 3))}),
        ("gaussian_filter", (X, 1), {"output": "bool"}),
        ("gaussian_filter", (X, 1), {"output": "nonsense"}),
        ("gaussian_filter", (X, 1), {"output": np.float16}),
        ("correlate", (X, SQUARE), {"output": np.float16}),
        ("gaussian_filter", (X, 1), {"output": object}),
        ("uniform_filter", (X.astype(np.float16),), {}),
        ("correlate", (X.astype(np.float16), SQUARE), {}),
        ("sobel", (X.astype(np.longdouble),), {}),
        ("laplace", (X.astype(object),), {}),
        ("correlate1d", (X, [1]), {"cval": None}),
        ("correlate", (X, SQUARE), {"cval": "1"}),
    ],
)
def test_refusals_are_scipys(name, args, kwargs):
    same_refusal(name, *args, **kwargs)


def test_a_read_only_output_is_refused():
    array = X.copy()
    array.flags.writeable = False
    same_refusal("gaussian_filter", X, 1, output=array)
    same_refusal("correlate", X, SQUARE, output=array)


def test_dtypes_of_torch_alone_are_refused():
    for dtype in (torch.bfloat16, torch.float16):
        shown = "torch.bfloat16" if dtype is torch.bfloat16 else "dtype('float16')"
        with refuses(RuntimeError, f"array type {shown} not supported"):
            ours.gaussian_filter(torch.zeros(3, 3, dtype=dtype), 1)
        with refuses(RuntimeError, "array type not supported"):
            ours.correlate(torch.zeros(3, 3), SQUARE, output=dtype)


@pytest.mark.parametrize("name", CALLS)
def test_complex_numbers_are_refused_by_name(name):
    function, args = getattr(ours, name), CALLS[name]
    cases = [
        ("input", X * 1j, args, {}),
        ("input", torch.ones(3, 4, dtype=torch.complex64), args, {}),
        ("output", X, args, {"output": complex}),
        ("output", X, args, {"output": "complex64"}),
        ("output", X, args, {"output": torch.complex64}),
        ("output", X, args, {"output": np.zeros((3, 4), np.complex128)}),
        ("cval", X, args, {"cval": 1j}),
        ("cval", X, args, {"cval": np.complex64(1)}),
    ]
    if "correlate" in name or "convolve" in name:
        window = np.array(args[0]) * 1j
        cases += [("weights", X, (window,), {}), ("weights", X, (torch.from_numpy(window),), {})]
    for what, image, args, kwargs in cases:
        with refuses(TypeError, f"{name}: complex {what} is not served".replace("weights is", "weights are")):
            function(image, *args, **kwargs)


def test_weights_that_require_a_gradient_are_refused():
    weights = torch.ones(3, requires_grad=True)
    for name in ("correlate1d", "convolve1d", "correlate", "convolve"):
        with refuses(RuntimeError, f"{name}: weights that require a gradient are not served"):
            getattr(ours, name)(torch.ones(5), weights)
        with torch.no_grad():
            assert getattr(ours, name)(torch.ones(5), weights).tolist() == [3.0] * 5


def test_settings_may_be_tensors():
    image = noise((6, 8), "float64")
    expected = ndi.gaussian_filter(image, [0.7, 1.5], [0, 1])
    compare(ours.gaussian_filter(image, torch.tensor([0.7, 1.5], dtype=torch.float64), torch.tensor([0, 1])), expected)
    compare(ours.gaussian_filter1d(image, torch.tensor(1.5)), ndi.gaussian_filter1d(image, 1.5))
    compare(ours.uniform_filter(image, torch.tensor([2, 3])), ndi.uniform_filter(image, [2, 3]))


def test_settings_that_require_a_gradient_are_refused():
    """They are read as numbers: the gradient would be lost without a word."""
    sigma = torch.tensor(1.0, requires_grad=True)
    with refuses(RuntimeError, "scipy_ndimage: settings that require a gradient are not served"):
        ours.gaussian_filter(torch.ones(4, 5), sigma)
    with torch.no_grad():
        image = torch.arange(20.0).reshape(4, 5)
        assert torch.equal(ours.gaussian_filter(image, sigma), ours.gaussian_filter(image, 1.0))


def test_functions_that_are_not_served_name_the_original():
    for name in sorted(set(ndi.__all__) - set(ours.__all__)):
        assert not hasattr(ours, name)
        with pytest.raises(AttributeError) as refused:
            getattr(ours, name)
        assert str(refused.value) == f"compat.scipy_ndimage has no {name}; import the original scipy.ndimage beside it"
    assert not hasattr(ours, "__wrapped__")
    assert inspect.getmodule(ours.sobel) is not None
