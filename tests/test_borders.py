"""Border policies: the patterns of the contract's table, any radius, aliases, and agreement between operators."""

import pytest
import torch
from oracle import check
from strategies import BORDERS, EXTENDING, make_image, make_window
from tolerance import assert_same_bits

import torch_conv
from torch_conv.autograd._extension import _runs, extend
from torch_conv.dispatch import borders
from torch_conv.reference._extend import source_of
from torch_conv.sharding.geometry import runs_of

# The values at positions -9 .. 12 of the row `abcd`; v is the border's value.
PATTERNS = {
    "constant": "vvvvvvvvvabcdvvvvvvvvv",
    "replicate": "aaaaaaaaaabcdddddddddd",
    "reflect": "dcbabcdcbabcdcbabcdcba",
    "symmetric": "aabcddcbaabcddcbaabcdd",
    "circular": "dabcdabcdabcdabcdabcda",
}
ALIASES = {
    "zeros": "constant",
    "edge": "replicate",
    "nearest": "replicate",
    "mirror": "reflect",
    "reflect_101": "reflect",
    "reflect101": "reflect",
    "reflect_1001": "symmetric",
    "grid-mirror": "symmetric",
    "wrap": "circular",
    "grid-wrap": "circular",
}
LETTERS = {"a": 2.0, "b": 3.0, "c": 5.0, "d": 7.0, "v": 11.0}


def along(row, axis, axes):
    """A row as an image or a volume that has no other extent."""
    return row.reshape([-1 if a == axis else 1 for a in range(axes)])


def shifted(image, distance, border, axis):
    """The extended image or volume `distance` further along `axis`, read by a window with a single tap."""
    k = 2 * abs(distance) + 1
    taps = torch.zeros(k, device=image.device)
    taps[abs(distance) + distance] = 1
    filter_ = torch_conv.filter2d if image.dim() == 2 else torch_conv.filter3d
    return filter_(image, along(taps, axis, image.dim()), border, value=LETTERS["v"])


AXES = [(axis, axes) for axes in (2, 3) for axis in range(axes)]


@pytest.mark.parametrize("border", EXTENDING)
@pytest.mark.parametrize(("axis", "axes"), AXES)
def test_extends_as_the_table_says(device, border, axis, axes):
    row = torch.tensor([LETTERS[x] for x in "abcd"], device=device)
    image = along(row, axis, axes)
    for distance in range(-9, 10):
        got = shifted(image, distance, border, axis).flatten().tolist()
        assert got == [LETTERS[x] for x in PATTERNS[border][9 + distance : 13 + distance]], distance


@pytest.mark.parametrize("border", EXTENDING)
@pytest.mark.parametrize(("axis", "axes"), AXES)
def test_an_axis_of_length_one_repeats_its_value(device, border, axis, axes):
    image = torch.full((1,) * axes, 3.0, device=device)
    for distance in (-7, -1, 1, 7):
        expected = LETTERS["v"] if border == "constant" else 3.0
        assert shifted(image, distance, border, axis).item() == expected


@pytest.mark.parametrize("border", EXTENDING)
@pytest.mark.parametrize(("axis", "axes"), [(1, 2), (0, 3), (1, 3), (2, 3)])
def test_a_radius_of_many_periods(device, border, axis, axes):
    """Position -1000 - x and 1000 + x of a row of 7: the map holds at any distance."""
    n, far = 7, 1000
    image = along(torch.arange(float(n), device=device), axis, axes)
    period = {"reflect": 2 * n - 2, "symmetric": 2 * n, "circular": n}.get(border)

    def at(i):
        if border == "constant":
            return LETTERS["v"]
        if border == "replicate":
            return float(min(max(i, 0), n - 1))
        i %= period
        return float({"reflect": min(i, period - i), "symmetric": min(i, period - 1 - i), "circular": i}[border])

    for distance in (-far, far):
        assert shifted(image, distance, border, axis).flatten().tolist() == [at(x + distance) for x in range(n)]


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases(device, alias):
    image, kernel = make_image((2, 9, 11), device=device), make_window((5, 4), device=device)
    row = kernel[0].contiguous()
    known = ALIASES[alias]
    assert_same_bits(
        torch_conv.filter2d(image, kernel, alias, value=2.0), torch_conv.filter2d(image, kernel, known, value=2.0)
    )
    assert_same_bits(
        torch_conv.filter2d_separable(image, row, row, alias), torch_conv.filter2d_separable(image, row, row, known)
    )
    assert_same_bits(torch_conv.box_blur(image, 3, alias), torch_conv.box_blur(image, 3, known))
    cube = make_window((3, 2, 4), device=device)
    assert_same_bits(
        torch_conv.filter3d(image, cube, alias, value=2.0), torch_conv.filter3d(image, cube, known, value=2.0)
    )
    assert_same_bits(
        torch_conv.filter3d_separable(image, row, row, row, alias),
        torch_conv.filter3d_separable(image, row, row, row, known),
    )
    assert_same_bits(torch_conv.box_blur3d(image, 3, alias), torch_conv.box_blur3d(image, 3, known))


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (2, 2), (3, 70), (40, 41)])
@pytest.mark.parametrize("window", [(3, 3), (4, 7), (21, 35)])
def test_every_operator_agrees_with_the_oracle(device, border, shape, window):
    image, taps = make_image(shape), make_window((sum(window),)).abs() + 0.25
    x, y = taps[: window[1]], taps[-window[0] :]
    options = {"device": device, "window": window, "value": 1.75, "normalized": True}
    check("filter2d", image, make_window(window).abs() + 0.25, border, **options)
    check("filter2d_separable", image, x, y, border, algorithm="separable", **options)
    check("box_blur", image, window, border, algorithm="box", **options)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 9), (9, 1, 1), (2, 2, 2), (3, 2, 30), (6, 9, 13)])
@pytest.mark.parametrize("window", [(3, 3, 3), (2, 4, 3), (9, 3, 13)])
def test_every_operator_of_volumes_agrees_with_the_oracle(device, border, shape, window):
    volume, taps = make_image(shape), make_window((sum(window),)).abs() + 0.25
    z, y, x = taps[: window[0]], taps[-window[1] :], taps[3 : 3 + window[2]]
    options = {"device": device, "window": window, "value": 1.75, "normalized": True}
    check("filter3d", volume, make_window(window).abs() + 0.25, border, **options)
    check("filter3d_separable", volume, x, y, z, border, algorithm="separable", **options)
    check("box_blur3d", volume, window, border, algorithm="box", **options)


@pytest.mark.parametrize("normalized", [False, True])
def test_skip_leaves_out_the_taps_outside(device, normalized):
    image = torch.tensor([[1.0, 2.0, 4.0]], device=device)
    kernel = torch.tensor([[1.0, -2.0, 3.0]], device=device)
    got = torch_conv.filter2d(image, kernel, "skip", normalized, value=100.0)[0].tolist()
    sums, weights = [-2 + 6.0, 1 - 4 + 12.0, 2 - 8.0], [5.0, 6.0, 3.0]
    assert got == pytest.approx([s / w if normalized else s for s, w in zip(sums, weights, strict=True)], rel=1e-6)


def test_zero_output_writes_zero_where_the_window_does_not_fit(device):
    image = torch.full((6, 7), 2.0, device=device)
    got = torch_conv.filter2d(image, torch.ones(3, 2, device=device), "zero_output", value=9.0)
    expected = torch.zeros(6, 7)
    expected[1:5, 0:6] = 12
    assert torch.equal(got.cpu(), expected)
    assert torch_conv.filter2d(image, torch.ones(7, 1, device=device), "zero_output").count_nonzero() == 0
    volume = torch.full((4, 6, 7), 2.0, device=device)
    got = torch_conv.filter3d(volume, torch.ones(2, 3, 2, device=device), "zero_output", value=9.0)
    expected = torch.zeros(4, 6, 7)
    expected[0:3, 1:5, 0:6] = 24
    assert torch.equal(got.cpu(), expected)
    two, three = torch.ones(2, device=device), torch.ones(3, device=device)
    got = torch_conv.filter3d_separable(volume, two, three, two, "zero_output", value=9.0)
    assert torch.equal(got.cpu(), expected)
    got = torch_conv.box_blur3d(volume, (2, 3, 2), "zero_output", normalized=False, value=9.0)
    assert torch.equal(got.cpu(), expected)
    assert torch_conv.box_blur3d(volume, (5, 1, 1), "zero_output").count_nonzero() == 0


@pytest.mark.parametrize("border", ["zero_output", "skip"])
def test_pixels_outside_are_never_read(device, border):
    """The image is a window into a larger one full of NaN."""
    around = torch.full((20, 20), float("nan"), device=device)
    around[4:13, 5:15] = 1.0
    inner = around[4:13, 5:15]
    assert torch_conv.filter2d(inner, torch.ones(5, 5, device=device), border).isfinite().all()
    assert torch_conv.box_blur(inner, 5, border).isfinite().all()
    ones = torch.ones(5, device=device)
    assert torch_conv.filter2d_separable(inner, ones, ones, border).isfinite().all()
    around = torch.full((9, 12, 20), float("nan"), device=device)
    around[3:6, 2:9, 5:15] = 1.0
    inner = around[3:6, 2:9, 5:15]
    assert torch_conv.filter3d(inner, torch.ones(3, 5, 5, device=device), border).isfinite().all()
    assert torch_conv.box_blur3d(inner, 5, border).isfinite().all()
    assert torch_conv.filter3d_separable(inner, ones, ones, ones, border).isfinite().all()


def test_a_value_reaches_every_dtype_of_image(device):
    """The value is a number of the accumulation dtype, not rounded to the image's: 0.5 outside a uint8 image."""
    image = torch.zeros(1, 1, dtype=torch.uint8, device=device)
    got = torch_conv.filter2d(image, torch.ones(1, 3, device=device), "constant", value=0.5, output_dtype=torch.float32)
    assert got.item() == 1.0


def test_borders_of_the_tests_are_those_of_cpp():
    assert tuple(BORDERS) == borders.BORDERS
    assert {name: borders.border_name(name) for name in ALIASES} == ALIASES


@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.parametrize("border", sorted({*BORDERS, "unknown"}))
def test_runs_are_those_of_the_oracle_or_refused(border, n):
    """A border that has no formula in Python does not take the formula of another."""
    if border in ("constant", "skip", "zero_output", "unknown"):
        with pytest.raises(ValueError, match=border):
            _runs(border, n, 3, 3)
    else:
        image = torch.arange(float(n))
        assert_same_bits(extend(image, border, 0.0, [3], [4]), image[source_of(torch.arange(-3, n + 4), n, border)])


def test_an_unknown_border_is_refused():
    with pytest.raises(ValueError, match="unknown"):
        source_of(torch.arange(-3, 9), 5, "unknown")
    with pytest.raises(ValueError, match="tuple"):
        runs_of(-3, 9, [0, 5], "unknown")


@pytest.mark.parametrize("name", ["Reflect", "mirror101", "", "clamp"])
def test_unknown_names(device, name):
    """Names are lower case."""
    with pytest.raises(ValueError, match="^filter2d: border_type must be 'constant', "):
        torch_conv.filter2d(torch.zeros(4, 4, device=device), torch.ones(3, 3, device=device), name)
