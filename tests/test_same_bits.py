"""Same bits: a pixel's result depends on its window's values and the algorithm, on nothing else."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from strategies import BORDERS, DTYPES, FLOATS, lay_out, make_image, make_window
from tolerance import assert_same_bits

import torch_conv

# Boxes over floats are left out, because their bits depend on the row: test_box_order.py tests them. Filters on tensor
# cores, which 'auto' may take, are left out too: test_tensor_core.py tests them.
CHAIN = {"algorithm": "direct"}
CHAINS = {"algorithm": "separable"}
CALLS = {
    "3x3": lambda x, **kw: torch_conv.filter2d(x, make_window((3, 3)), **CHAIN, **kw),
    "5x5": lambda x, **kw: torch_conv.filter2d(x, make_window((5, 5)), **CHAIN, **kw),
    "7x7": lambda x, **kw: torch_conv.filter2d(x, make_window((7, 7)), **CHAIN, **kw),
    "4x9": lambda x, **kw: torch_conv.filter2d(x, make_window((4, 9)), **CHAIN, **kw),
    "separable 5": lambda x, **kw: torch_conv.filter2d_separable(
        x, make_window((5,)), make_window((5,), seed=8), **CHAINS, **kw
    ),
    "separable 15": lambda x, **kw: torch_conv.filter2d_separable(
        x, make_window((15,)), make_window((15,), seed=8), **CHAINS, **kw
    ),
    "separable 9x33": lambda x, **kw: torch_conv.filter2d_separable(
        x, make_window((33,)), make_window((9,)), **CHAINS, **kw
    ),
    # the other chains of filters: test_fused
    "gaussian_sobel": lambda x, **kw: torch_conv.gaussian_sobel(x, 5, 1.1, **kw),
    "unsharp_mask": lambda x, **kw: torch_conv.unsharp_mask(x, 9, 2.0, **kw),
    "thin_edges": lambda x, **kw: torch_conv.thin_edges(x, 3, 1.1, **kw),
}
VOLUMES = {
    "3x3x3": lambda x, **kw: torch_conv.filter3d(x, make_window((3, 3, 3)), **kw),
    "5x5x5": lambda x, **kw: torch_conv.filter3d(x, make_window((5, 5, 5)), **kw),
    "7x7x7": lambda x, **kw: torch_conv.filter3d(x, make_window((7, 7, 7)), **kw),
    "2x4x9": lambda x, **kw: torch_conv.filter3d(x, make_window((2, 4, 9)), **kw),
    "1x5x5": lambda x, **kw: torch_conv.filter3d(x, make_window((1, 5, 5)), **kw),
    "5x1x1": lambda x, **kw: torch_conv.filter3d(x, make_window((5, 1, 1)), **kw),
    "separable 3": lambda x, **kw: torch_conv.filter3d_separable(x, *make_window((3, 3)), **kw),
    "separable 9": lambda x, **kw: torch_conv.filter3d_separable(x, *make_window((3, 9)), **kw),
    "separable 3x6x17": lambda x, **kw: torch_conv.filter3d_separable(
        x, make_window((17,)), make_window((6,)), make_window((3,)), **kw
    ),
    "gradient magnitude": lambda x, **kw: torch_conv.gaussian_gradient_magnitude3d(x, 3, 1.1, **kw),
}
INTEGER_BOX3D = {"box": lambda x, **kw: torch_conv.box_blur3d(x, (3, 4, 9), **kw)}
INTEGER_BOX = {"box": lambda x, **kw: torch_conv.box_blur(x, (9, 14), **kw)}


def calls(dtype):
    return CALLS if dtype.is_floating_point else CALLS | INTEGER_BOX


def volume_calls(dtype):
    return VOLUMES if dtype.is_floating_point else VOLUMES | INTEGER_BOX3D


def calls_of(axes, dtype):
    return calls(dtype) if axes == 2 else volume_calls(dtype)


def nearest_float32(exact):
    """The float32 nearest to a fraction, ties to even."""
    guess = np.float32(float(exact))
    around = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    return min(around, key=lambda f: (abs(Fraction(float(f)) - exact), int(f.view(np.uint32)) & 1))


@pytest.mark.parametrize("size", [(3, 3), (5, 5), (2, 3)])
def test_a_direct_sum_is_one_fma_chain(device, size):
    """Starting at 0, rows then columns ascending, each step rounded once."""
    image, kernel = make_image((8, 9)), make_window(size)
    got = torch_conv.filter2d(image.to(device), kernel.to(device), padding="valid").cpu()
    pixels, taps = image.tolist(), kernel.tolist()
    for y in range(got.shape[0]):
        for x in range(got.shape[1]):
            total = np.float32(0)
            for i in range(size[0]):
                for j in range(size[1]):
                    exact = Fraction(taps[i][j]) * Fraction(pixels[y + i][x + j]) + Fraction(float(total))
                    total = nearest_float32(exact)
            assert got[y, x].item() == float(total), (y, x)


@pytest.mark.parametrize("size", [(3, 3, 3), (2, 1, 3), (1, 2, 2), (3, 1, 1)])
def test_a_direct_sum_over_volumes_is_one_fma_chain(device, size):
    """Planes, then rows, then columns ascending."""
    volume, kernel = make_image((4, 4, 5)), make_window(size)
    got = torch_conv.filter3d(volume.to(device), kernel.to(device), padding="valid").cpu()
    for z, y, x in np.ndindex(*got.shape):
        total = np.float32(0)
        for l, i, j in np.ndindex(*size):  # noqa: E741
            product = Fraction(kernel[l, i, j].item()) * Fraction(volume[z + l, y + i, x + j].item())
            total = nearest_float32(product + Fraction(float(total)))
        assert got[z, y, x].item() == float(total), (z, y, x)


def test_a_separable_sum_over_volumes_is_three_fma_chains(device):
    """One pass along x, then one along y, then one along z."""
    volume, taps = make_image((4, 4, 5)), dict(zip((2, 1, 0), make_window((3, 3)), strict=True))
    got = torch_conv.filter3d_separable(volume.to(device), *(taps[a].to(device) for a in (2, 1, 0)), padding="valid")
    expected = volume.numpy()
    for axis in (2, 1, 0):
        rows = np.moveaxis(expected, axis, -1)
        sums = np.zeros((*rows.shape[:-1], rows.shape[-1] - 2), np.float32)
        for at in np.ndindex(*sums.shape):
            for j in range(3):
                product = Fraction(taps[axis][j].item()) * Fraction(float(rows[(*at[:-1], at[-1] + j)]))
                sums[at] = nearest_float32(product + Fraction(float(sums[at])))
        expected = np.moveaxis(sums, -1, axis)
    assert_same_bits(got, torch.from_numpy(np.ascontiguousarray(expected)))


def test_a_few_channel_sum_is_one_fma_chain(device):
    """Input channels come first, the bias last."""
    image, weight, bias = make_image((2, 5, 6)), make_window((1, 2, 3, 3)), make_window((1,))
    got = torch_conv.conv2d(image.to(device), weight.to(device), bias.to(device), algorithm="direct").cpu()[0]
    for y in range(3):
        for x in range(4):
            total = np.float32(0)
            for c in range(2):
                for i in range(3):
                    for j in range(3):
                        product = Fraction(weight[0, c, i, j].item()) * Fraction(image[c, y + i, x + j].item())
                        total = nearest_float32(product + Fraction(float(total)))
            exact = Fraction(float(total)) + Fraction(bias[0].item())
            assert got[y, x].item() == float(nearest_float32(exact))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("axes", "shape"),
    [(2, (5, 3, 20, 37)), (2, (2, 2, 64, 128)), (3, (3, 2, 5, 10, 37)), (3, (2, 2, 9, 8, 64))],
)
def test_alone_or_in_a_batch(device, dtype, axes, shape):
    image = make_image(shape, dtype, device=device)
    for call in calls_of(axes, dtype).values():
        got = call(image)
        for n in range(shape[0]):
            assert_same_bits(got[n], call(image[n].clone()))
        assert_same_bits(got[0, 1], call(image[0, 1].clone()))


PLACES = {  # rows and columns (and planes) further into a larger image, and its size beyond
    (60, 150): (((1, 0), (0, 1), (1, 1), (3, 7), (17, 31), (33, 130)), (5, 3)),
    (9, 14, 50): (((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 3, 7), (9, 17, 31), (2, 5, 130)), (2, 5, 3)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", PLACES)
def test_anywhere_in_a_tile(device, dtype, shape):
    """A crop with the image's pixels, some rows and columns inside a larger image."""
    image, (places, beyond) = make_image(shape, dtype), PLACES[shape]
    for call in calls_of(len(shape), dtype).values():
        expected = call(image.to(device), padding="valid")
        for place in places:
            sizes = [n + p + more for n, p, more in zip(shape, place, beyond, strict=True)]
            larger = make_image(sizes, dtype, seed=1)
            larger[tuple(slice(p, p + n) for p, n in zip(place, shape, strict=True))] = image
            got = call(larger.to(device), padding="valid")
            part = tuple(slice(p, p + n) for p, n in zip(place, expected.shape, strict=True))
            assert_same_bits(got[part], expected)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize(("shape", "window"), [((20, 37), (5, 7)), ((9, 11, 23), (3, 5, 7))])
def test_a_border_is_the_extended_image(device, border, shape, window):
    """Pixels outside enter the sum like any other; the border does not change the interior."""
    image, kernel = make_image(shape, device=device), make_window(window, device=device)
    filtered = getattr(torch_conv, f"filter{len(shape)}d")
    got = filtered(image, kernel, border, value=0.3)
    inside = tuple(slice(k // 2, -(k // 2)) for k in window)
    assert_same_bits(got[inside], filtered(image, kernel, padding="valid"))
    if border in ("constant", "replicate", "reflect", "circular"):  # F.pad has these
        options = {"value": 0.3} if border == "constant" else {}
        widths = [k // 2 for k in reversed(window) for _ in range(2)]
        extended = torch.nn.functional.pad(image[None, None], widths, mode=border, **options)[0, 0]
        assert_same_bits(got, filtered(extended, kernel, padding="valid"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_run_to_run(device, dtype):
    boxes = {2: INTEGER_BOX, 3: INTEGER_BOX3D}  # box repeats itself on floats, too
    for axes, shape in ((2, (3, 70, 131)), (3, (2, 9, 20, 67))):
        image = make_image(shape, dtype, device=device)
        for call in (calls_of(axes, dtype) | boxes[axes]).values():
            first = call(image)
            for _ in range(3):
                assert_same_bits(call(image), first)


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_number_of_threads(threads, dtype):
    image = make_image((3, 2, 90, 131), dtype)
    volume = make_image((3, 2, 7, 20, 37), dtype)
    made = [(call, image) for call in calls(dtype).values()] + [(call, volume) for call in volume_calls(dtype).values()]
    torch.set_num_threads(1)
    one = [call(given) for call, given in made]
    for count in (2, 3, 7):
        torch.set_num_threads(count)
        for (call, given), expected in zip(made, one, strict=True):
            assert_same_bits(call(given), expected)


SHAPES = [(2, (2, 3, 33, 70)), (2, (1, 1, 64, 512)), (2, (3, 1, 9, 333))]
SHAPES += [(3, (2, 3, 9, 14, 70)), (3, (1, 1, 5, 9, 256)), (3, (3, 1, 12, 5, 33)), (3, (2, 1, 1, 9, 40))]


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize(("axes", "shape"), SHAPES)
def test_cpu_and_gpu(cuda, dtype, border, axes, shape):
    image = make_image(shape, dtype)
    for call in calls_of(axes, dtype).values():
        assert_same_bits(call(image.to(cuda), border_type=border), call(image, border_type=border))
        if axes == 3:
            with_value = {"border_type": border, "value": 1.75, "output_dtype": torch.float32}
            assert_same_bits(call(image.to(cuda), **with_value), call(image, **with_value))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"dilation": (1, 3)}])
def test_cpu_and_gpu_convolutions(cuda, dtype, options):
    image = make_image((2, 6, 30, 41), dtype)
    for weight_shape, groups in (((6, 1, 3, 3), 6), ((12, 1, 5, 5), 6), ((4, 3, 3, 4), 2)):
        weight, bias = make_window(weight_shape, dtype), make_window(weight_shape[:1], dtype)
        mine = {"groups": groups, "algorithm": "direct", **options}
        on_cpu = torch_conv.conv2d(image, weight, bias, **mine)
        on_gpu = torch_conv.conv2d(image.to(cuda), weight.to(cuda), bias.to(cuda), **mine)
        assert_same_bits(on_gpu, on_cpu)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"dilation": (1, 1, 3)}, {"padding": (1, 2, 0)}])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_3d_convolutions_on_cpu_and_gpu(cuda, dtype, options, layout):
    volume = lay_out(make_image((2, 6, 9, 12, 21), dtype), layout)
    for weight_shape, groups in (
        ((6, 1, 3, 3, 3), 6),
        ((12, 1, 5, 5, 5), 6),
        ((4, 3, 1, 3, 4), 2),
        ((6, 1, 3, 1, 1), 6),
    ):
        weight, bias = make_window(weight_shape, dtype), make_window(weight_shape[:1], dtype)
        on_cpu = torch_conv.conv3d(volume, weight, bias, groups=groups, algorithm="direct", **options)
        on_gpu = torch_conv.conv3d(volume.to(cuda), weight.to(cuda), bias.to(cuda), groups=groups, **options)
        assert_same_bits(on_gpu, on_cpu)


@pytest.mark.cuda
@pytest.mark.multi_gpu
def test_any_gpu(cuda):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    image = make_image((2, 3, 64, 131))
    for call in CALLS.values():
        got = call(image.to("cuda:1"))  # the current device stays cuda:0
        assert got.device.index == 1
        assert_same_bits(got, call(image.to("cuda:0")))
    volume = make_image((2, 3, 9, 20, 37))
    for call in VOLUMES.values():
        assert_same_bits(call(volume.to("cuda:1")), call(volume.to("cuda:0")))
