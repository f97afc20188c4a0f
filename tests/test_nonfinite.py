"""NaN and Inf in an image change the outputs whose windows contain them and no others, with every algorithm."""

import pytest
import torch
import witness
from strategies import FLOATS, make_image, make_window
from tolerance import assert_same_bits

import torch_conv

SIZE = (5, 8)
CALLS = {
    # test_tensor_core has the tests of tensor cores.
    "filter2d": lambda x, border: torch_conv.filter2d(x, make_window(SIZE).abs() + 0.1, border, algorithm="direct"),
    "filter2d_separable": lambda x, border: torch_conv.filter2d_separable(
        x, make_window(SIZE[1:]).abs() + 0.1, make_window(SIZE[:1]).abs() + 0.1, border
    ),
    "box_blur": lambda x, border: torch_conv.box_blur(x, SIZE, border),
    "large box_blur": lambda x, border: torch_conv.box_blur(x, (31, 40), border),
}


CUBE = (2, 3, 8)
VOLUMES = {
    "filter3d": lambda x, border: torch_conv.filter3d(x, make_window(CUBE).abs() + 0.1, border),
    "filter3d_separable": lambda x, border: torch_conv.filter3d_separable(
        x, *(make_window((k,)).abs() + 0.1 for k in reversed(CUBE)), border
    ),
    "box_blur3d": lambda x, border: torch_conv.box_blur3d(x, CUBE, border),
    "large box_blur3d": lambda x, border: torch_conv.box_blur3d(x, (9, 11, 31), border),
}
SIZES = {"large box_blur": (31, 40), "large box_blur3d": (9, 11, 31)}
SHAPES = {2: [(1, 1, 9, 11), (2, 1, 70, 150), (1, 2, 130, 333)], 3: [(1, 4, 9, 11), (2, 7, 20, 70), (1, 12, 6, 133)]}
CASES = [(name, shape) for axes, calls in ((2, CALLS), (3, VOLUMES)) for name in calls for shape in SHAPES[axes]]
CALLS |= VOLUMES


def windows_with(mask, name, border):
    """True where a window of ones over `mask` is not zero."""
    size = SIZES.get(name, CUBE if name in VOLUMES else SIZE)
    anchor = tuple((k - 1) // 2 for k in size)
    return torch.from_numpy(witness.box_sum(mask.numpy(), size, border, anchor)) > 0


def scatter(image, values, seed=3):
    """A few special values at random places; a mask of them."""
    places = torch.randperm(image.numel(), generator=torch.Generator().manual_seed(seed))[: len(values)]
    image.view(-1)[places] = torch.tensor(values, dtype=image.dtype)
    return ~image.isfinite()


@pytest.mark.parametrize(("name", "shape"), CASES)
@pytest.mark.parametrize("border", ["reflect", "circular", "constant", "replicate", "skip"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_stays_in_its_windows(device, name, border, dtype, shape):
    clean = make_image(shape, dtype)
    image = clean.clone()
    mask = scatter(image, [float("nan")] * 3)
    got = CALLS[name](image.to(device), border).cpu()
    hit = windows_with(mask, name, border)
    assert torch.equal(got.isnan(), hit)
    finite = CALLS[name](torch.where(mask, torch.zeros_like(clean), clean).to(device), border).cpu()
    if "box" in name:
        tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
        torch.testing.assert_close(got[~hit], finite[~hit], rtol=tolerance, atol=tolerance)
    else:
        assert_same_bits(got[~hit], finite[~hit])


CHAINS = {
    # a call, and the window of the whole chain
    "spatial_gradient": (lambda x, border: torch_conv.spatial_gradient(x, border_type=border).sum(-3), 3),
    "sobel": (lambda x, border: torch_conv.sobel(x, border_type=border), 3),
    "gaussian_sobel": (lambda x, border: torch_conv.gaussian_sobel(x, 5, 1.1, border), 7),
    "unsharp_mask": (lambda x, border: torch_conv.unsharp_mask(x, 9, 2.0, border), 9),
    "difference_of_gaussians": (lambda x, border: torch_conv.difference_of_gaussians(x, 1.0, border_type=border), 13),
    "structure_tensor": (lambda x, border: torch_conv.structure_tensor(x, 5, 1.1, border).sum(-3), 7),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("shape", [(1, 1, 9, 11), (2, 1, 40, 75), (1, 2, 20, 333)])
@pytest.mark.parametrize("border", ["reflect", "circular", "constant", "replicate", "skip"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_stays_in_the_windows_of_a_chain(device, name, border, dtype, shape):
    """Each stage extends its own input; together their radius is that of one window."""
    call, k = CHAINS[name]
    clean = make_image(shape, dtype)
    image = clean.clone()
    mask = scatter(image, [float("nan")] * 3)
    got = call(image.to(device), border).cpu()
    hit = torch.from_numpy(witness.box_sum(mask.numpy(), (k, k), border, (k // 2, k // 2))) > 0
    assert torch.equal(got.isnan(), hit)
    finite = call(torch.where(mask, torch.zeros_like(clean), clean).to(device), border).cpu()
    assert_same_bits(got[~hit], finite[~hit])


@pytest.mark.parametrize(("name", "shape"), CASES)
@pytest.mark.parametrize("border", ["reflect", "circular"])
def test_infinities_add_up_as_they_should(device, name, border, shape):
    """+Inf alone gives +Inf, with -Inf in the same window NaN."""
    image = make_image(shape)
    scatter(image, [float("inf"), float("-inf"), float("inf"), float("-inf")])
    got = CALLS[name](image.to(device), border).cpu()
    plus, minus = (windows_with(image == sign * float("inf"), name, border) for sign in (1, -1))
    assert torch.equal(got.isposinf(), plus & ~minus)
    assert torch.equal(got.isneginf(), minus & ~plus)
    assert torch.equal(got.isnan(), plus & minus)


def test_zero_taps_multiply_too(device):
    """0 * NaN and 0 * Inf are NaN."""
    for special in (float("nan"), float("inf")):
        image = torch.ones(5, 9, device=device)
        image[2, 4] = special
        kernel = torch.zeros(3, 3, device=device)
        kernel[1, 1] = 1
        got = torch_conv.filter2d(image, kernel)
        expected = torch.zeros(5, 9, dtype=torch.bool)
        expected[1:4, 3:6] = True
        if special == float("inf"):
            assert got[2, 4].isposinf()
            expected[2, 4] = False
        assert torch.equal(got.isnan().cpu(), expected)
        volume = torch.stack([torch.ones_like(image), image, torch.ones_like(image), torch.ones_like(image)])
        deep = torch_conv.filter3d(volume, torch.stack([0 * kernel, kernel, 0 * kernel])).isnan().cpu()
        assert torch.equal(deep[1], expected)
        expected[2, 4] = True
        assert torch.equal(deep[0], expected)
        assert torch.equal(deep[2], expected)
        assert not deep[3].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_overflowing_sum_stays_in_its_windows(device, dtype):
    """Finite values whose sum overflows are another way to a running sum full of Inf."""
    image = torch.ones(60, 200, dtype=dtype, device=device)
    image[20:23, 50:60] = torch.finfo(dtype).max
    got = torch_conv.box_blur(image, (9, 17), "replicate").cpu()
    hit = witness.box_sum((image > 1).cpu().numpy(), (9, 17), "replicate", (4, 8)) > 0
    assert got[~torch.from_numpy(hit)].isfinite().all()


def test_a_nan_in_the_window_reaches_every_pixel(device):
    kernel = torch.ones(3, 3, device=device)
    kernel[0, 2] = float("nan")
    assert torch_conv.filter2d(torch.ones(7, 9, device=device), kernel).isnan().all()
    assert torch_conv.filter3d(torch.ones(4, 7, 9, device=device), kernel.expand(2, 3, 3)).isnan().all()


def test_conv2d(device):
    image = torch.ones(2, 3, 9, 12, device=device)
    image[1, 2, 4, 5] = float("nan")
    got = torch_conv.conv2d(image, torch.ones(3, 1, 3, 3, device=device), padding=1, groups=3, algorithm="direct")
    assert got.isnan().sum() == 9
    assert got[1, 2, 3:6, 4:7].isnan().all()


def test_conv3d(device):
    volume = torch.ones(2, 3, 5, 9, 12, device=device)
    volume[1, 2, 2, 4, 5] = float("nan")
    got = torch_conv.conv3d(volume, torch.ones(3, 1, 3, 3, 3, device=device), padding=1, groups=3)
    assert got.isnan().sum() == 27
    assert got[1, 2, 1:4, 3:6, 4:7].isnan().all()


def test_nan_becomes_zero_in_integers(device):
    image = torch.full((6, 30), 9.0, device=device)
    image[3, 15] = float("nan")
    got = torch_conv.box_blur(image, 3, output_dtype=torch.uint8)
    assert got[2:5, 14:17].eq(0).all()
    assert got.eq(9).sum() == 6 * 30 - 9


DIFFERENCES = {
    # a call, and the radius of its windows
    "difference_of_gaussians": (lambda x, **o: torch_conv.difference_of_gaussians(x, 1.0, **o), 6),
    "gaussian_laplace": (lambda x, **o: torch_conv.gaussian_laplace(x, 1.1, **o), 4),
    "unsharp_mask": (lambda x, **o: torch_conv.unsharp_mask(x, 9, 1.5, **o), 4),
}


@pytest.mark.parametrize("name", DIFFERENCES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sign", [1, -1])
def test_an_infinity_in_a_difference(device, name, dtype, sign):
    """docs/promises.md: passes may turn an infinity into NaN; one window gives it the sign of its tap."""
    call, radius = DIFFERENCES[name]
    clean = make_image((20, 40), dtype).to(device)
    image, impulse = clean.clone(), torch.zeros_like(clean)
    image[9, 17], impulse[9, 17] = sign * float("inf"), sign
    hit = torch.zeros(20, 40, dtype=torch.bool)
    hit[9 - radius : 10 + radius, 17 - radius : 18 + radius] = True
    taps = call(impulse.double(), algorithm="direct").cpu()
    one_window, passes = (call(image, algorithm=way).cpu() for way in ("direct", "separable"))
    assert not one_window.isnan().any()
    assert torch.equal(one_window[hit].double(), taps[hit].sign() * float("inf"))
    assert not passes[hit].isfinite().any() and passes.isnan().any()
    for got, way in ((one_window, "direct"), (passes, "separable")):
        assert_same_bits(got[~hit], call(clean, algorithm=way).cpu()[~hit])
    if name == "unsharp_mask":
        to_bytes = call(image, algorithm="separable", output_dtype=torch.uint8).cpu()
        assert to_bytes[9, 17] == 0 and passes[9, 17].isnan()
