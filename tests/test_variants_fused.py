"""Every fused kernel gives the same bits, for every chain that it serves."""

import pytest
import torch
from refusals import refuses
from strategies import BORDERS, make_image, make_window
from tolerance import assert_same_bits
from variants import DTYPES, SHAPES, VARIANTS, VOLUME_SHAPES, call_fused3d

import torch_conv

OPS = torch.ops.torch_conv
CHAINS = {
    "gradient": lambda x, k, **kw: OPS.gradient2d(x, **kw),
    "second gradient": lambda x, k, **kw: OPS.gradient2d(x, order=2, **kw),
    "sobel": lambda x, k, **kw: OPS.sobel2d(x, **kw),
    "gaussian_sobel": lambda x, k, **kw: OPS.gaussian_sobel2d(x, k, k, **kw),
    "gaussian_sobel l1": lambda x, k, **kw: OPS.gaussian_sobel2d(x, k, k, magnitude="l1", **kw),
    "structure_tensor": lambda x, k, **kw: OPS.structure_tensor2d(x, k, k, **kw),
    "thin_edges": lambda x, k, **kw: OPS.thin_edges2d(x, k, k, **kw),
    "unsharp_mask": lambda x, k, **kw: OPS.unsharp_mask2d(x, k, k, **kw),
    "sum": lambda x, k, **kw: OPS.separable_sum2d(x, [k, k.flip(0)], [k, -k], **kw),
    "downsample": lambda x, k, **kw: OPS.filter2d_separable(x, k, k, stride=[2, 2], **kw),
}


@pytest.fixture
def in_one_launch(pinned):
    """run(variant, f): f(algorithm='fused') with that variant pinned, None where the variant cannot serve the call."""

    def run(variant, f):
        try:
            return pinned(variant, lambda: f(algorithm="fused"))
        except RuntimeError as refusal:
            assert f"variant '{variant}' cannot serve this call" in str(refusal)
            return None

    return run


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("size", [3, 5, 7])
def test_images(cuda, in_one_launch, dtype, name, size):
    served, taps = set(), make_window((size,)).abs() / size
    for shape in SHAPES:
        for border in BORDERS:
            image, options = make_image(shape, dtype), {"border_type": border, "value": 0.75}
            expected = CHAINS[name](image, taps, **options)
            on_gpu = image.to(cuda)
            for variant in VARIANTS["fused"]:
                got = in_one_launch(variant, lambda x=on_gpu, o=options, **kw: CHAINS[name](x, taps, **o, **kw))
                if got is not None:
                    served.add(variant)
                    assert_same_bits(got, expected)
            for algorithm in ("auto", "separable"):
                assert_same_bits(CHAINS[name](on_gpu, taps, algorithm=algorithm, **options), expected)
    if dtype == torch.float32 and size <= 5:
        assert "tile" in served
        assert "tile_tma" in served or torch.cuda.get_device_capability() < (9, 0)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [9, 11, 13, 15])
def test_sums_of_large_windows(cuda, in_one_launch, dtype, size):
    """A streaming kernel repeats columns from its box and from beyond it, and rows from where the border finds them."""
    served, taps = set(), make_window((size,)).abs() / size
    for shape in [*SHAPES, (1, 1, 1, 8), (1, 1, 700, 132), (2, 1, 333, 1)]:
        for border in BORDERS:
            image = make_image(shape, dtype)
            on_gpu = image.to(cuda)
            for value, padding in ((0.0, "same"), (3.0, "same"), (3.0, "valid")):
                if padding == "valid" and min(shape[-2:]) < size:
                    continue
                options = {"border_type": border, "value": value, "padding": padding}
                expected = CHAINS["sum"](image, taps, **options)
                assert_same_bits(CHAINS["sum"](on_gpu, taps, **options), expected)
                for variant in VARIANTS["fused"]:
                    got = in_one_launch(variant, lambda x=on_gpu, o=options, **kw: CHAINS["sum"](x, taps, **o, **kw))
                    if got is not None:
                        served.add(variant)
                        assert_same_bits(got, expected)
    assert "tile" in served
    assert served >= {"streaming", "tile_tma"} or torch.cuda.get_device_capability() < (9, 0)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [3, 5, 7])
@pytest.mark.parametrize("mode", ["diff", "sobel"])
def test_volumes(cuda, pinned, dtype, size, mode):
    call, served = call_fused3d(size), set()
    for shape in VOLUME_SHAPES:
        for border in BORDERS:
            volume, options = make_image(shape, dtype), {"border_type": border, "value": 0.75, "mode": mode}
            expected, on_gpu = call(volume, **options), volume.to(cuda)
            for variant in VARIANTS["fused3d"]:
                got = pinned(variant, lambda v=on_gpu, o=options: call(v, **o))
                if got is not None:
                    served.add(variant)
                    assert_same_bits(got, expected)
            assert_same_bits(call(on_gpu, **options), expected)
    if torch.cuda.get_device_capability() >= (9, 0) and dtype == torch.float32 and size == 3:
        assert "streaming" in served


@pytest.mark.cuda
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("value", [0.3, -5.0, 1e6])
def test_values_that_the_image_cannot_hold(cuda, name, value):
    taps = make_window((3,)).abs() / 3
    for dtype in DTYPES:
        image = make_image((1, 2, 20, 64), dtype)
        options = {"border_type": "constant", "value": value, "output_dtype": torch.float32}
        assert_same_bits(CHAINS[name](image.to(cuda), taps, **options), CHAINS[name](image, taps, **options))


@pytest.mark.cuda
@pytest.mark.parametrize("name", CHAINS)
def test_many_planes(cuda, name):
    taps = make_window((3,)).abs() / 3
    for shape in ((70000, 1, 3, 8), (2, 40000, 4, 4)):
        image = make_image(shape, device=cuda)
        got = CHAINS[name](image, taps)
        for n in (0, 1, shape[0] - 1):
            assert_same_bits(got[n], CHAINS[name](image[n].cpu(), taps))


@pytest.mark.cuda
@pytest.mark.parametrize("name", CHAINS)
def test_widths(cuda, name):
    taps = make_window((5,)).abs() / 5
    for width in [*range(1, 71), 333, 1918]:
        image = make_image((2, 1, 11, width))
        assert_same_bits(CHAINS[name](image.to(cuda), taps), CHAINS[name](image, taps))


def test_an_impossible_pin_is_refused(device, monkeypatch):
    monkeypatch.setenv("TORCH_CONV_VARIANT", "no_such_kernel")
    image = torch.zeros(9, 11, device=device)
    for call, name in (
        (lambda: torch_conv.sobel(image), "sobel"),
        (lambda: torch_conv.sobel(image, algorithm="fused"), "sobel"),
        (lambda: torch_conv.thin_edges(image, 3, 1.0, algorithm="separable"), "thin_edges"),
    ):
        with refuses(ValueError, f"{name}: variant 'no_such_kernel' cannot serve this call"):
            call()


def test_the_name_that_explain_prints_can_be_pinned(device, monkeypatch):
    image = make_image((2, 40, 64)).to(device)
    expected, plan = torch_conv.sobel(image), str(torch_conv.explain(torch_conv.sobel, image))
    variant = plan.split("fused/")[1].split()[0]
    monkeypatch.setenv("TORCH_CONV_VARIANT", variant)
    assert_same_bits(torch_conv.sobel(image, algorithm="fused"), expected)
