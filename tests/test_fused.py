"""Chains of filters in one launch have the bits of the single filters one after the other."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import BORDERS, DTYPES, LAYOUTS, VOLUME_LAYOUTS, lay_out, make_image, make_window, seeds, sides
from tolerance import assert_same_bits

import torch_conv

OPS = torch.ops.torch_conv
KINDS = [("sobel", 1), ("sobel", 2), ("diff", 1), ("diff", 2), ("scharr", 1), ("prewitt", 1)]


def taps(k, seed=7):
    """Rows of taps that sum to about 1, in no order and of both signs."""
    return (make_window((k,), torch.float64, seed) + 1) / k


# name: a call of an image, the taps along x and y and the options that all share
PIPELINES = {
    **{
        f"gradient {mode} {order}": lambda x, kx, ky, mode=mode, order=order, **kw: OPS.gradient2d(x, mode, order, **kw)
        for mode, order in KINDS
    },
    "raw gradient": lambda x, kx, ky, **kw: OPS.gradient2d(x, "scharr", 1, False, **kw),
    "sobel": lambda x, kx, ky, **kw: OPS.sobel2d(x, **kw),
    "raw sobel": lambda x, kx, ky, **kw: OPS.sobel2d(x, False, 0.5, **kw),
    "gaussian_sobel l1": lambda x, kx, ky, **kw: OPS.gaussian_sobel2d(x, kx, ky, magnitude="l1", **kw),
    "gaussian_sobel l2": lambda x, kx, ky, **kw: OPS.gaussian_sobel2d(x, kx, ky, **kw),
    "one window": lambda x, kx, ky, **kw: OPS.separable_sum2d(x, [kx], [ky], **kw),
    "sum of two": lambda x, kx, ky, **kw: OPS.separable_sum2d(x, [kx, kx.flip(0)], [ky, -ky], **kw),
    "sum of three": lambda x, kx, ky, **kw: OPS.separable_sum2d(x, [kx, kx.flip(0), kx], [ky, -ky, ky.flip(0)], **kw),
    "unsharp_mask": lambda x, kx, ky, **kw: OPS.unsharp_mask2d(x, kx, ky, amount=0.7, **kw),
    "structure_tensor": lambda x, kx, ky, **kw: OPS.structure_tensor2d(x, kx, ky, **kw),
    "thin_edges": lambda x, kx, ky, **kw: OPS.thin_edges2d(x, kx, ky, **kw),
    "downsample": lambda x, kx, ky, **kw: OPS.filter2d_separable(x, kx, ky, stride=[2, 2], **kw),
}
SEVERAL = {name for name in PIPELINES if "gradient" in name} | {"structure_tensor"}
WITH_WINDOWS = [name for name in PIPELINES if "gradient" not in name and name not in ("sobel", "raw sobel")]


@st.composite
def calls(draw, largest=24, dtypes=DTYPES):
    """A pipeline, an image, and the options of the call."""
    name = draw(st.sampled_from(sorted(PIPELINES)))
    side = st.one_of(sides(largest), st.sampled_from([16, 32, largest]))
    shape = (*draw(st.lists(st.integers(1, 3), max_size=3)), draw(side), draw(side))
    kx = draw(st.sampled_from([1, 3, 5, 7, 15]))
    ky = draw(st.one_of(st.just(kx), st.sampled_from([1, 3, 5, 9])))
    image = lay_out(make_image(shape, draw(st.sampled_from(dtypes)), draw(seeds())), draw(st.sampled_from(LAYOUTS)))
    if draw(st.integers(0, 9)) == 0:
        image = image[..., :1, :].expand(shape)
    options = {
        "border_type": draw(st.sampled_from(BORDERS)),
        "value": draw(st.sampled_from([0.0, 1.5])),
        "padding": draw(st.sampled_from(["same", "same", "valid"])),
        "output_dtype": draw(st.one_of(st.none(), st.sampled_from(DTYPES))),
    }
    if name == "downsample" or min(shape[-2:]) < max(kx, ky) + 4:
        options["padding"] = "same"
    return name, image, kx, ky, draw(seeds()), options


def fused_and_apart(device, name, image, kx, ky, seed, options):
    """The result in one launch where that serves, and the chain's."""
    image, kernels = image.to(device), (taps(kx, seed), taps(ky, seed + 1))
    algorithm = "fused" if device == "cpu" else "auto"
    got = PIPELINES[name](image, *kernels, algorithm=algorithm, **options)
    return got, PIPELINES[name](image, *kernels, algorithm="separable", **options)


@given(call=calls())
def test_one_launch_is_the_chain(device, call):
    got, expected = fused_and_apart(device, *call)
    assert_same_bits(got, expected)
    assert got.stride() == expected.stride()


@given(call=calls(largest=300, dtypes=[dtype for dtype in DTYPES if dtype != torch.float64]))
def test_images_of_several_tiles(device, call):
    got, expected = fused_and_apart(device, *call)
    assert_same_bits(got, expected)


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_border_of_every_pipeline(device, name, dtype):
    for border in BORDERS:
        for shape in ((1, 1), (2, 3), (9, 33), (2, 40, 150)):
            options = {"border_type": border, "value": 2.5}
            got, expected = fused_and_apart(device, name, make_image(shape, dtype), 5, 5, 3, options)
            assert_same_bits(got, expected)


@pytest.mark.parametrize("name", PIPELINES)
def test_layouts(device, name):
    """channels_last comes out as it came in, or contiguous where an image makes several."""
    image = make_image((2, 4, 33, 64), device=device)
    expected = PIPELINES[name](image, taps(5), taps(5))
    for layout in LAYOUTS:
        got = PIPELINES[name](lay_out(image, layout), taps(5), taps(5))
        assert_same_bits(got, expected)
        if layout == "channels_last" and name not in SEVERAL:
            assert got.is_contiguous(memory_format=torch.channels_last)
        else:
            assert got.is_contiguous()
    strange = make_image((4, 3, 2, 9, 11), device=device).transpose(0, 1)
    got = PIPELINES[name](strange, taps(3), taps(3))
    assert_same_bits(got, PIPELINES[name](strange.contiguous(), taps(3), taps(3)))


@pytest.mark.parametrize("name", [name for name in WITH_WINDOWS if not name.startswith("sum")])
@pytest.mark.parametrize("form", ["per sample", "per channel"])
def test_windows_of_their_own(device, name, form):
    """A window for every sample, or every sample and channel: as each plane by itself."""
    image = make_image((2, 3, 20, 31), device=device)
    lead = (2,) if form == "per sample" else (2, 3)
    kx, ky = make_window((*lead, 5), seed=1, device=device), make_window((*lead, 3), seed=2, device=device)
    got = PIPELINES[name](image, kx, ky)
    for n in range(2):
        for c in range(3):
            at = n if form == "per sample" else (n, c)
            assert_same_bits(got[n, c], PIPELINES[name](image[n, c].clone(), kx[at], ky[at]))


@pytest.mark.parametrize("name", WITH_WINDOWS)
def test_windows_on_the_device_of_the_image(device, name):
    image = make_image((2, 20, 31))
    expected = PIPELINES[name](image, taps(7), taps(5))
    got = PIPELINES[name](image.to(device), taps(7).to(device), taps(5).to(device))
    assert_same_bits(got, expected)


@pytest.mark.parametrize("name", WITH_WINDOWS)
def test_windows_too_long_for_the_parameters_of_a_launch(device, name):
    image = make_image((2, 90, 131), device=device)
    got, expected = fused_and_apart(device, name, image, 81, 75, 3, {})
    assert_same_bits(got, expected)


@pytest.mark.parametrize("k", [3, 65])
def test_windows_that_share_memory(device, k):
    """One row for all along x, rows of their own along y, both from the same first tap on; 65 are uploaded."""
    image, rows = make_image((2, 1, 70, 71), device=device), make_window((2, k)) / k
    for name in ("gaussian_sobel l2", "unsharp_mask", "thin_edges", "downsample"):
        expected = PIPELINES[name](image, rows[0].clone(), rows.clone(), algorithm="separable")
        for algorithm in ("auto", "separable", *(["fused"] if device == "cpu" else [])):
            assert_same_bits(PIPELINES[name](image, rows[0], rows, algorithm=algorithm), expected)


@pytest.mark.parametrize("k", [3, 65])
def test_windows_over_volumes_that_share_memory(device, k):
    volume, rows = make_image((2, 1, 5, 20, 24), device=device), make_window((2, k)) / k
    expected = OPS.gaussian_gradient3d(volume, rows[0].clone(), rows.clone(), rows[0].clone(), algorithm="separable")
    for algorithm in ("auto", "separable"):
        got = OPS.gaussian_gradient3d(volume, rows[0], rows, rows[0], algorithm=algorithm)
        assert_same_bits(got, expected)


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("shape", [(0, 3, 9, 8), (2, 0, 9, 8), (2, 3, 0, 8), (2, 3, 9, 0), (0, 0)])
def test_nothing_in_nothing_out(device, name, shape):
    got = PIPELINES[name](torch.zeros(shape, device=device), taps(3), taps(3))
    assert got.numel() == 0
    one = PIPELINES[name](torch.zeros((*[max(n, 1) for n in shape[:-2]], 9, 8)), taps(3), taps(3))
    assert got.dim() == one.dim()


@pytest.mark.parametrize("name", PIPELINES)
def test_any_number_of_threads(threads, name):
    image = make_image((3, 2, 90, 131))
    torch.set_num_threads(1)
    expected = PIPELINES[name](image, taps(5), taps(5))
    for count in (2, 3, 7):
        torch.set_num_threads(count)
        assert_same_bits(PIPELINES[name](image, taps(5), taps(5)), expected)


@pytest.mark.parametrize("name", PIPELINES)
def test_alone_or_in_a_batch(device, name):
    image = make_image((5, 3, 20, 37), device=device)
    got = PIPELINES[name](image, taps(5), taps(5))
    for n in range(5):
        assert_same_bits(got[n], PIPELINES[name](image[n].clone(), taps(5), taps(5)))
    assert_same_bits(got[0, 1], PIPELINES[name](image[0, 1].clone(), taps(5), taps(5)))


@pytest.mark.parametrize("name", [n for n in PIPELINES if n != "downsample"])
def test_anywhere_in_a_tile(device, name):
    """A crop with the image's pixels, some rows and columns inside a larger image."""
    image = make_image((60, 150))
    expected = PIPELINES[name](image.to(device), taps(5), taps(5), padding="valid")
    h, w = expected.shape[-2:]
    for dy, dx in ((1, 0), (0, 1), (1, 1), (3, 7), (17, 31), (33, 130)):
        larger = make_image((60 + dy + 5, 150 + dx + 3), seed=1)
        larger[dy : dy + 60, dx : dx + 150] = image
        got = PIPELINES[name](larger.to(device), taps(5), taps(5), padding="valid")
        assert_same_bits(got[..., dy : dy + h, dx : dx + w], expected)


@pytest.mark.parametrize(
    "name", ["gaussian_sobel2d", "unsharp_mask2d", "structure_tensor2d", "thin_edges2d", "filter2d_separable"]
)
def test_out_whose_leading_dimensions_do_not_merge(device, name):
    image = make_image((4, 3, 2, 20, 31), device=device)
    expected = getattr(OPS, name)(image, taps(5), taps(5))
    out = torch.full(expected.transpose(0, 1).shape, -7.0, device=device).transpose(0, 1)
    getattr(OPS, name + "_out")(image, taps(5), taps(5), out=out)
    assert_same_bits(out, expected)


VOLUMES = [(1, 1, 1), (2, 3, 4), (5, 9, 33), (2, 2, 7, 12, 40)]


# On the CPU volumes are never one launch: test_pipelines.py has the chain against the reference.


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["diff", "sobel"])
@pytest.mark.parametrize("k", [3, 5, 7])
def test_volumes(cuda, dtype, mode, k):
    kx, ky, kz = taps(k), taps(k, 8), taps(k, 9)
    for border in BORDERS:
        for shape in VOLUMES:
            volume = make_image(shape, dtype, device=cuda)
            for output_dtype in (None, torch.float32):
                options = {"border_type": border, "value": 1.5, "mode": mode, "output_dtype": output_dtype}
                expected = OPS.gaussian_gradient3d(volume, kx, ky, kz, algorithm="separable", **options)
                assert_same_bits(OPS.gaussian_gradient3d(volume, kx, ky, kz, **options), expected)


@pytest.mark.cuda
def test_windows_of_volumes_too_many_for_the_parameters_of_a_launch(cuda):
    volume = make_image((32, 1, 5, 9, 16), device=cuda)
    sigma = 0.5 + 1.5 * torch.rand(32, 3)
    expected = torch_conv.gaussian_gradient_magnitude3d(volume, 7, sigma, algorithm="separable")
    for algorithm in ("auto", "fused"):
        got = torch_conv.gaussian_gradient_magnitude3d(volume, 7, sigma, algorithm=algorithm)
        assert_same_bits(got, expected)


@pytest.mark.cuda
@given(
    k=st.sampled_from([3, 5, 7]),
    dtype=st.sampled_from(DTYPES),
    shape=st.tuples(st.integers(1, 3), sides(12), sides(20), sides(80)),
    border=st.sampled_from(BORDERS),
    layout=st.sampled_from(VOLUME_LAYOUTS),
    seed=seeds(),
)
def test_any_volume(cuda, k, dtype, shape, border, layout, seed):
    volume = lay_out(make_image(shape, dtype, seed), layout).to(cuda)
    row = taps(k, seed)
    valid = min(shape[1:]) >= k + 2
    for padding in ("same", "valid") if valid else ("same",):
        options = {"border_type": border, "value": -2.0, "padding": padding}
        expected = OPS.gaussian_gradient3d(volume, row, row, row, algorithm="separable", **options)
        assert_same_bits(OPS.gaussian_gradient3d(volume, row, row, row, **options), expected)


@pytest.mark.cuda
@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_cpu_and_gpu(cuda, name, dtype):
    for shape in ((2, 3, 33, 70), (1, 1, 64, 512), (3, 1, 9, 333), (1, 130, 257)):
        image = make_image(shape, dtype)
        for border in BORDERS:
            for k in (3, 5, 7):
                options = {"border_type": border, "value": 1.75}
                got = PIPELINES[name](image.to(cuda), taps(k), taps(k), **options)
                assert_same_bits(got, PIPELINES[name](image, taps(k), taps(k), **options))


@pytest.mark.cuda
@pytest.mark.parametrize("mode", ["diff", "sobel"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_volumes_on_cpu_and_gpu(cuda, mode, dtype):
    for shape in ((2, 3, 9, 14, 70), (1, 1, 5, 9, 256), (3, 1, 12, 5, 33), (2, 1, 1, 9, 40)):
        volume = make_image(shape, dtype)
        for border in BORDERS:
            for k in (3, 5):
                options = {"border_type": border, "value": 1.75, "mode": mode}
                got = OPS.gaussian_gradient3d(volume.to(cuda), taps(k), taps(k), taps(k), **options)
                assert_same_bits(got, OPS.gaussian_gradient3d(volume, taps(k), taps(k), taps(k), **options))


@pytest.mark.cuda
@pytest.mark.parametrize("name", sorted(set(PIPELINES) - {"one window", "sum of three"}))
def test_the_gpu_takes_float32_in_one_launch(cuda, name):
    """Planar images and small square windows from the host: the family's purpose; no named filter is such a sum."""
    image = make_image((2, 3, 64, 256), device=cuda)
    for k in (3, 5):
        plan = torch_conv.explain(PIPELINES[name], image, taps(k), taps(k), algorithm="fused")
        assert len(plan.lines) == 1
        assert ": fused/" in plan.lines[0]


def test_a_chain_that_cannot_be_fused_says_why(device):
    volume, row = torch.zeros(4, 5, 6, device=device), taps(3)
    if device == "cpu":
        with pytest.raises(RuntimeError) as caught:
            OPS.gaussian_gradient3d(volume, row, row, row, algorithm="fused")
        sentence = "algorithm 'fused' cannot serve this call: volumes are fused on CUDA only"
        assert str(caught.value) == f"gaussian_gradient3d: {sentence}"
    else:
        image, own = volume[None], row.expand(1, 4, 3).contiguous()
        for args in ((image, row.to(device), row), (image, own, row), (image.double(), row, row)):
            with pytest.raises(RuntimeError, match=r"^thin_edges2d: algorithm 'fused' cannot serve this call: \w+"):
                OPS.thin_edges2d(*args, algorithm="fused")


@pytest.mark.parametrize(
    "options",
    [
        {"stride": [1, 1]},
        {"stride": [2, 1]},
        {"stride": [2, 2], "dilation": [2, 2]},
        {"stride": [2, 2], "padding": "valid"},
        {"stride": [2, 2], "anchor": [0, 1]},
    ],
)
def test_separable_filters_that_are_chains(device, options):
    with pytest.raises(RuntimeError) as caught:
        OPS.filter2d_separable(torch.zeros(9, 8, device=device), taps(3), taps(3), algorithm="fused", **options)
    sentence = "serves odd windows in their middle, with stride 2, dilation 1 and padding='same'"
    assert str(caught.value) == f"filter2d_separable: algorithm 'fused' {sentence}"
