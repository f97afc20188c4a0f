"""out=: results written where the caller says, never over the input."""

import pytest
import torch
from refusals import refuses
from strategies import DTYPES, LAYOUTS, VOLUME_LAYOUTS, lay_out, make_image, make_window
from tolerance import assert_same_bits

import torch_conv

CALLS = {
    "filter2d": lambda x, **kw: torch_conv.filter2d(x, make_window((3, 4)).to(x.device), **kw),
    "filter2d_separable": lambda x, **kw: torch_conv.filter2d_separable(x, make_window((5,)), make_window((3,)), **kw),
    "box_blur": lambda x, **kw: torch_conv.box_blur(x, (3, 4), **kw),
    "gaussian_blur2d": lambda x, **kw: torch_conv.gaussian_blur2d(x, 5, 1.1, **kw),
    "laplacian": lambda x, **kw: torch_conv.laplacian(x, 3, **kw),
    "unsharp_mask": lambda x, **kw: torch_conv.unsharp_mask(x, 5, 1.1, **kw),
    "gaussian_downsample": lambda x, **kw: torch_conv.gaussian_downsample(x, 5, 1.1, 1, **kw),
    "sobel": lambda x, **kw: torch_conv.sobel(x, **kw),
    "gaussian_sobel": lambda x, **kw: torch_conv.gaussian_sobel(x, 5, 1.1, **kw),
    "difference_of_gaussians": lambda x, **kw: torch_conv.difference_of_gaussians(x, 2.0, **kw),
    "fused unsharp_mask": lambda x, **kw: torch_conv.unsharp_mask(x, 9, 2.0, **kw),
    "thin_edges": lambda x, **kw: torch_conv.thin_edges(x, 5, 1.1, **kw),
    # two volumes of three planes
    "gaussian_gradient_magnitude3d": lambda x, **kw: torch_conv.gaussian_gradient_magnitude3d(x, 3, 1.1, **kw),
    "filter3d": lambda x, **kw: torch_conv.filter3d(x, make_window((2, 3, 4)).to(x.device), **kw),
    "filter3d_separable": lambda x, **kw: torch_conv.filter3d_separable(x, *make_window((3, 3)), **kw),
    "box_blur3d": lambda x, **kw: torch_conv.box_blur3d(x, (2, 3, 4), **kw),
    "gaussian_blur3d": lambda x, **kw: torch_conv.gaussian_blur3d(x, 5, 1.1, **kw),
}
SHAPE = (2, 3, 17, 21)
OPERATORS = ["filter2d", "filter2d_separable", "box_blur", "sobel", "gaussian_sobel", "thin_edges"]
VOLUMES = ["filter3d", "filter3d_separable", "box_blur3d", "gaussian_gradient_magnitude3d"]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_writes_and_returns_out(device, name, layout):
    image = make_image(SHAPE, device=device)
    expected = CALLS[name](image)
    out = lay_out(torch.full(SHAPE, -7.0, device=device), layout)
    strides = out.stride()
    got = CALLS[name](image, out=out)
    assert got is out
    assert out.stride() == strides
    assert_same_bits(out, expected)


@pytest.mark.parametrize("name", OPERATORS + VOLUMES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_dtype_of_out_decides(device, name, dtype):
    image = make_image(SHAPE, torch.uint8, device=device)
    out = torch.zeros(SHAPE, dtype=dtype, device=device)
    CALLS[name](image, out=out)
    assert_same_bits(out, CALLS[name](image, output_dtype=dtype))
    assert out.float().abs().max() > 0


def test_only_out_is_written(device):
    """A view into a larger tensor: the surrounding values stay."""
    around = torch.full((2, 3, 19, 25), -7.0, device=device)
    inner = around[:, :, 1:-1, 3:-1]
    image = make_image(inner.shape, device=device)
    for call in CALLS.values():
        around.fill_(-7.0)
        call(image, out=inner)
        assert_same_bits(inner, call(image))
        inner.fill_(-7.0)
        assert around.eq(-7.0).all()


def test_out_of_a_strided_or_valid_call(device):
    image, kernel = make_image((2, 17, 21), device=device), make_window((3, 4), device=device)
    for options in ({"stride": (2, 3)}, {"padding": "valid"}, {"padding": "valid", "dilation": 2}):
        expected = torch_conv.filter2d(image, kernel, **options)
        out = torch.empty_like(expected)
        torch_conv.filter2d(image, kernel, out=out, **options)
        assert_same_bits(out, expected)


def test_leading_dimensions_of_out_that_do_not_merge(device):
    image, kernel = make_image((4, 3, 2, 9, 11), device=device), make_window((3, 3), device=device)
    out = torch.zeros(3, 4, 2, 9, 11, device=device).transpose(0, 1)
    torch_conv.filter2d(image, kernel, out=out)
    assert_same_bits(out, torch_conv.filter2d(image, kernel))


@pytest.mark.parametrize("layout", VOLUME_LAYOUTS)
@pytest.mark.parametrize("name", VOLUMES)
def test_volumes_in_every_layout(device, name, layout):
    volume = make_image((2, 3, 5, 9, 12), device=device)
    expected = CALLS[name](volume)
    out = lay_out(torch.full_like(volume, -7.0), layout)
    strides = out.stride()
    assert CALLS[name](volume, out=out) is out
    assert out.stride() == strides
    assert_same_bits(out, expected)


SEVERAL = {
    "spatial_gradient": lambda x, **kw: torch_conv.spatial_gradient(x, **kw),
    "spatial_gradient, direct": lambda x, **kw: torch_conv.spatial_gradient(x, algorithm="direct", **kw),
    "spatial_gradient, order 2": lambda x, **kw: torch_conv.spatial_gradient(x, "sobel", 2, **kw),
    "structure_tensor": lambda x, **kw: torch_conv.structure_tensor(x, 5, 1.1, **kw),
}


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int16])
def test_images_that_make_several(device, name, dtype):
    """The new dimension may have any stride in `out`; the call writes `out` only."""
    image = make_image(SHAPE, dtype, device=device)
    expected = SEVERAL[name](image)
    b, c, n, h, w = expected.shape
    around = torch.full((b, c, n, h + 2, w + 3), 7, dtype=dtype, device=device)
    for out in (
        torch.empty_like(expected),
        torch.empty(b, c, h, w, n, dtype=dtype, device=device).movedim(-1, 2),
        torch.empty(n, b, c, h, w, dtype=dtype, device=device).movedim(0, 2),
        torch.empty(c, b, n, h, w, dtype=dtype, device=device).transpose(0, 1),
        torch.empty(b, c, n, h, 2 * w, dtype=dtype, device=device)[..., ::2],
        around[..., 1:-1, 2:-1],
    ):
        out.fill_(7)
        assert SEVERAL[name](image, out=out) is out
        assert_same_bits(out, expected)
    around[..., 1:-1, 2:-1] = 7
    assert around.eq(7).all()


@pytest.mark.parametrize("name", SEVERAL)
def test_bad_out_of_several(device, name):
    image, function = make_image((9, 8), device=device), name.split(",")[0]
    n = SEVERAL[name](image).shape[0]
    out = torch.zeros(n + 1, 9, 8, device=device)
    for given, sentence in (
        (out, f"out must have shape ({n}, 9, 8), got ({n + 1}, 9, 8)"),
        (out[0], f"out must have shape ({n}, 9, 8), got (9, 8)"),
        (out[:1].expand(n, 9, 8), "out must not overlap itself, got strides (0, 8, 1)"),
    ):
        with refuses(ValueError, f"{function}: {sentence}"):
            SEVERAL[name](image, out=given)
    whole = make_image((n, 9, 8), device=device)
    with pytest.raises(ValueError, match=f"^{function}: out must not overlap input$"):
        SEVERAL[name](whole[1], out=whole)
    with pytest.raises(TypeError, match=f"^{function}: out must have dtype float32, .*, got int32$"):
        SEVERAL[name](image, out=out[:n].int())
    assert out.eq(0).all()


@pytest.mark.parametrize("name", VOLUMES)
def test_volumes_whose_leading_dimensions_do_not_merge(device, name):
    volume = make_image((4, 3, 2, 5, 6, 7), device=device)
    out = torch.zeros(3, 4, 2, 5, 6, 7, device=device).transpose(0, 1)
    CALLS[name](volume, out=out)
    assert_same_bits(out, CALLS[name](volume))


@pytest.mark.parametrize("name", OPERATORS + VOLUMES)
def test_overlap_with_the_input_is_refused(device, name):
    """Writing where others still read would be a race."""
    both = make_image((3, 17, 21), device=device)
    before = both.clone()
    both, before = (t[:, None] if name in VOLUMES else t for t in (both, before))
    with refuses(ValueError, f"{name}: out must not overlap input"):
        CALLS[name](both, out=both)
    with refuses(ValueError, f"{name}: out must not overlap input"):
        CALLS[name](both[:2], out=both[1:])
    assert_same_bits(both, before)
    CALLS[name](both[:1], out=both[1:2])  # neighbours are no overlap
    assert_same_bits(both[1], CALLS[name](before[:1])[0])


@pytest.mark.parametrize("name", VOLUMES)
def test_bad_out_of_a_volume(device, name):
    volume, out = make_image((5, 9, 12), device=device), torch.zeros(4, 9, 12, device=device)
    with refuses(ValueError, f"{name}: out must have shape (5, 9, 12), got (4, 9, 12)"):
        CALLS[name](volume, out=out)
    with pytest.raises(TypeError, match=f"^{name}: out must have dtype float32, .*, got int32$"):
        CALLS[name](volume, out=torch.zeros(5, 9, 12, dtype=torch.int32, device=device))
    assert out.eq(0).all()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: torch.zeros(17, 20), "out must have shape (17, 21), got (17, 20)"),
        (lambda: torch.zeros(1, 17, 21), "out must have shape (17, 21), got (1, 17, 21)"),
        (lambda: torch.zeros(1, 21).expand(17, 21), "out must not overlap itself, got strides (0, 1)"),
    ],
)
@pytest.mark.parametrize("name", OPERATORS)
def test_bad_out(device, name, make, sentence):
    out = make().to(device) if make().is_contiguous() else torch.zeros(1, 21, device=device).expand(17, 21)
    with refuses(ValueError, f"{name}: {sentence}"):
        CALLS[name](make_image((17, 21), device=device), out=out)
    assert out.eq(0).all()


@pytest.mark.parametrize("name", OPERATORS)
def test_bad_dtype_of_out(device, name):
    out = torch.zeros(17, 21, dtype=torch.int32, device=device)
    with pytest.raises(TypeError, match=f"^{name}: out must have dtype float32, .*, got int32$"):
        CALLS[name](make_image((17, 21), device=device), out=out)
    assert out.eq(0).all()


@pytest.mark.cuda
@pytest.mark.parametrize("name", OPERATORS)
def test_out_on_another_device(cuda, name):
    with refuses(ValueError, f"{name}: out must be on cuda:0, got cpu"):
        CALLS[name](make_image((17, 21), device=cuda), out=torch.zeros(17, 21))


def test_out_of_an_empty_image(device):
    out = torch.zeros(0, 4, 5, device=device)
    assert torch_conv.filter2d(torch.zeros(0, 4, 5, device=device), make_window((3, 3), device=device), out=out) is out


def test_out_must_not_overlap_the_window(device):
    window = torch.rand(9, 8, device=device)
    before = window.clone()
    with pytest.raises(ValueError, match="^filter2d: out must not overlap kernel$"):
        torch_conv.filter2d(torch.rand(9, 8, device=device), window, out=window)
    assert torch.equal(window, before)
    cube = torch.rand(3, 9, 8, device=device)
    with pytest.raises(ValueError, match="^filter3d: out must not overlap kernel$"):
        torch_conv.filter3d(torch.rand(3, 9, 8, device=device), cube, out=cube)
    row = torch.rand(9, device=device)
    with pytest.raises(RuntimeError, match="^unsharp_mask2d: out must not overlap kernel_y$"):
        torch.ops.torch_conv.unsharp_mask2d_out(torch.rand(1, 9, device=device), row[:1].clone(), row, out=row[None])
    with pytest.raises(RuntimeError, match="^separable_sum2d: out must not overlap kernels_x$"):
        one = row[:1].clone()
        torch.ops.torch_conv.separable_sum2d_out(torch.rand(1, 9, device=device), [row], [one], out=row[None])
    with pytest.raises(ValueError, match="^filter3d_separable: out must not overlap kernel_z$"):
        torch_conv.filter3d_separable(
            torch.rand(1, 1, 9, device=device), row[:1].clone(), row[:1].clone(), row, out=row[None, None]
        )


def test_rows_of_out_must_not_overlap_each_other(device):
    out = torch.zeros(100, device=device).as_strided((9, 8), (1, 1))
    with pytest.raises(ValueError, match=r"^filter2d: out must not overlap itself, got strides \(1, 1\)$"):
        torch_conv.filter2d(torch.rand(9, 8, device=device), torch.rand(3, 3), out=out)


@pytest.mark.parametrize(
    ("function", "axes"), [(torch_conv.spatial_gradient, 2), (torch_conv.spatial_gradient3d, 3)], ids=["2-D", "3-D"]
)
def test_overlap_with_a_channels_last_input_is_refused(device, function, axes):
    """Also where the operator beneath sees a copy of the input."""
    planes = [2, 3, *[5, 6, 7][-axes:]]
    memory = torch.arange(2.0 * 3 * axes * 5 * 6 * 7, device=device)
    inner = memory[: torch.Size(planes).numel()].view(planes[0], *planes[2:], planes[1]).movedim(-1, 1)
    before = inner.clone()
    out = memory[: axes * inner.numel()].view(*planes[:2], axes, *planes[2:])
    with pytest.raises(ValueError, match=rf"^{function.__name__}: out must not overlap input$"):
        function(inner, out=out)
    assert torch.equal(inner, before)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.float16], ids=str)
def test_out_of_another_dtype_is_rounded_and_clamped(device, name, dtype):
    """Its dtype is the result's: half to even, then to the nearest that fits, never cut."""
    image = make_image(SHAPE, device=device) * 400
    exact = CALLS[name](image)
    expected = CALLS[name](image, output_dtype=dtype)
    out = torch.empty_like(exact, dtype=dtype)
    assert_same_bits(CALLS[name](image, out=out), expected)
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        near = exact.round().clamp(limits.min, limits.max)
        assert (expected.to(torch.float64) - near).abs().max() <= 1
        assert ((expected.to(torch.float64) - near) == 0).float().mean() > 0.99  # sums of another order may be a half
