"""explain: the plan of a call, which does not run."""

import pytest
import torch
from refusals import refuses
from strategies import make_image, make_window
from tolerance import assert_same_bits

import torch_conv

CALLS = {
    "direct": (torch_conv.filter2d, lambda d: (make_image((2, 40, 64), device=d), make_window((3, 3)))),
    "separable": (
        torch_conv.filter2d_separable,
        lambda d: (make_image((2, 40, 64), device=d), make_window((5,)), make_window((5,))),
    ),
    "box": (torch_conv.box_blur, lambda d: (make_image((2, 40, 64), device=d), 9)),
}
VOLUMES = {
    "direct": (torch_conv.filter3d, lambda d: (make_image((2, 40, 64), device=d), make_window((3, 3, 3)))),
    "separable": (torch_conv.filter3d_separable, lambda d: (make_image((2, 40, 64), device=d), *make_window((3, 5)))),
    "box": (torch_conv.box_blur3d, lambda d: (make_image((2, 40, 64), device=d), (3, 8, 9))),
}


@pytest.mark.parametrize("algorithm", CALLS)
def test_names_the_algorithm_and_what_it_costs(device, algorithm):
    function, arguments = CALLS[algorithm]
    text = str(torch_conv.explain(function, *arguments(device)))
    assert algorithm in text
    for word in ("tile", "launches 1", "bytes 40960", "flops"):  # 2 * 40 * 64 pixels, 4 bytes in and 4 out
        assert word in text
    if device == "cuda":
        assert "floor" in text


@pytest.mark.parametrize("algorithm", VOLUMES)
def test_plans_of_volumes(device, algorithm):
    function, arguments = VOLUMES[algorithm]
    plan = torch_conv.explain(function, *arguments(device))
    assert plan.lines
    name = {"box_blur3d": "box3d"}.get(function.__name__, function.__name__)
    assert plan.lines[0].startswith(f"{name}: {algorithm}/")
    for line in plan.lines:  # more than one where planes come first and then the depth
        assert line.startswith(f"{name}: ")
        for word in ("launches ", "bytes ", "flops "):
            assert word in line
    if algorithm == "direct":
        (line,) = plan.lines
        assert f"bytes {8 * 2 * 40 * 64}, flops {2 * 27 * 2 * 40 * 64}" in line
        assert f"flops {2 * 30 * 6000}" in str(
            torch_conv.explain(function, torch.zeros(10, 20, 30, device=device), torch.ones(2, 3, 5))
        )


@pytest.mark.parametrize(("of", "algorithm"), [(of, name) for of in (CALLS, VOLUMES) for name in of])
def test_runs_nothing(device, of, algorithm):
    function, arguments = of[algorithm]
    given = arguments(device)
    out = torch.full((2, 40, 64), -7.0, device=device)
    torch_conv.explain(function, *given, out=out)
    assert out.eq(-7).all()
    assert function(*given, out=out) is out  # the next call runs again
    assert_same_bits(out, function(*given))


def test_counts_flops(device):
    text = str(torch_conv.explain(torch_conv.filter2d, torch.zeros(10, 20, device=device), torch.ones(3, 5)))
    assert f"flops {2 * 15 * 200}" in text


def test_every_launch_of_a_named_filter(device):
    image = make_image((1, 2, 40, 64), device=device)
    for call in (
        lambda: torch_conv.explain(torch_conv.gaussian_blur2d, image, 5, 1.0),
        lambda: torch_conv.explain(torch_conv.sobel, image),
        lambda: torch_conv.explain(torch_conv.unsharp_mask, image, 5, 1.0),
        lambda: torch_conv.explain(torch_conv.unsharp_mask, image, 9, 2.0),
        lambda: torch_conv.explain(torch_conv.structure_tensor, image, 5, 1.0),
        lambda: torch_conv.explain(torch_conv.thin_edges, image, 5, 1.0),
        lambda: torch_conv.explain(torch_conv.gaussian_downsample, image, 5, 1.0),
        lambda: torch_conv.explain(torch_conv.gaussian_gradient_magnitude3d, image, 3, 1.0),
        lambda: torch_conv.explain(torch_conv.filter1d, image, make_window((3,))),
        lambda: torch_conv.explain(
            torch_conv.conv2d, image, make_window((2, 1, 3, 3)).to(device), groups=2, algorithm="direct"
        ),
        lambda: torch_conv.explain(torch_conv.gaussian_blur3d, image, 3, 1.0),
        lambda: torch_conv.explain(torch_conv.gaussian_blur3d, image, 7, 1.0),
        lambda: torch_conv.explain(torch_conv.spatial_gradient3d, image),
        lambda: torch_conv.explain(torch_conv.conv3d, image, make_window((1, 1, 3, 3, 3)).to(device), padding=1),
    ):
        text = str(call())
        assert "launches" in text
        assert "direct" in text or "separable" in text or "fused" in text or "depthwise" in text


PIPELINES = {
    "spatial_gradient": ("gradient2d", (), 2, ["separable"] * 2),
    "sobel": ("sobel2d", (), 1, ["separable"] * 2 + ["combine"]),
    "gaussian_sobel": ("gaussian_sobel2d", (5, 1.0), 1, ["separable"] * 3 + ["combine"]),
    "unsharp_mask": ("unsharp_mask2d", (9, 2.0), 1, ["separable", "combine"]),
    "difference_of_gaussians": ("separable_sum2d", (2.0,), 1, ["separable"] * 2 + ["combine"]),
    "gaussian_laplace": ("separable_sum2d", (2.0,), 1, ["separable"] * 2 + ["combine"]),
    "structure_tensor": ("structure_tensor2d", (5, 1.0), 3, ["separable"] * 2 + ["combine"] + ["separable"] * 3),
    "thin_edges": ("thin_edges2d", (5, 1.0), 1, ["separable"] * 3 + ["combine"] * 2),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_plans_of_pipelines(device, name):
    """One line in one launch, else a line for every part."""
    operator, args, outputs, parts = PIPELINES[name]
    image = make_image((1, 2, 40, 64), device=device)
    apart = torch_conv.explain(getattr(torch_conv, name), image, *args, algorithm="separable")
    assert [line.split("/")[0] for line in apart.lines] == [f"{operator}: {part}" for part in parts]
    if device == "cpu":
        (line,) = torch_conv.explain(getattr(torch_conv, name), image, *args).lines
        assert line.startswith(f"{operator}: fused/rows (")
        assert f"launches 1; bytes {4 * image.numel() * (1 + outputs)}, flops " in line


def test_plans_of_the_gradient_of_a_volume(device):
    volume = make_image((2, 9, 20, 31), device=device)
    plan = torch_conv.explain(torch_conv.gaussian_gradient_magnitude3d, volume, 3, 1.0, algorithm="separable")
    assert all(line.startswith("gaussian_gradient3d: ") for line in plan.lines)
    assert plan.lines[-1].startswith("gaussian_gradient3d: combine/")
    assert sum("separable/" in line for line in plan.lines) == 4


def test_says_what_is_handed_to_torch(device):
    image, weight = torch.zeros(1, 96, 8, 8, device=device), torch.zeros(80, 96, 3, 3, device=device)
    assert "torch" in str(torch_conv.explain(torch_conv.conv2d, image, weight))
    assert "torch" in str(torch_conv.explain(torch_conv.conv3d, image[:, :, None], weight[:, :, None]))


def test_refuses_what_the_call_refuses(device):
    image = make_image((4, 5), device=device)
    with refuses(ValueError, "filter2d: kernel must have 2, 3 or 4 dimensions, got 1"):
        torch_conv.explain(torch_conv.filter2d, image, torch.ones(3))
    kernel = make_window((3, 3))
    expected = torch_conv.reference.filter2d(image.cpu().double(), kernel)
    torch.testing.assert_close(torch_conv.filter2d(image, kernel).cpu().double(), expected, rtol=1e-5, atol=1e-5)


def test_leaves_out_alone(device):
    """Also where the result would be copied into it: leading dimensions that do not merge, a strided gradient."""
    around = torch.full((2, 4, 3, 9, 8), 7.0, device=device)
    image = make_image((2, 2, 3, 9, 8), device=device)
    torch_conv.explain(torch_conv.filter2d, image, make_window((3, 3)), out=around[:, ::2])
    assert (around == 7).all()
    around = torch.full((1, 2, 2, 9, 16), 7.0, device=device)
    image = make_image((1, 2, 9, 8), device=device)
    torch_conv.explain(torch_conv.spatial_gradient, image, out=around[..., ::2])
    assert (around == 7).all()
    torch_conv.spatial_gradient(image, out=around[..., ::2])
    assert torch.equal(around[..., ::2], torch_conv.spatial_gradient(image))
    assert (around[..., 1::2] == 7).all()
    around = torch.full((1, 2, 3, 5, 9, 16), 7.0, device=device)
    volume = make_image((1, 2, 5, 9, 8), device=device)
    torch_conv.explain(torch_conv.spatial_gradient3d, volume, out=around[..., ::2])
    assert (around == 7).all()
    torch_conv.spatial_gradient3d(volume, out=around[..., ::2])
    assert torch.equal(around[..., ::2], torch_conv.spatial_gradient3d(volume))
    assert (around[..., 1::2] == 7).all()


@pytest.mark.parametrize("ask", [torch_conv.explain, torch_conv.prepare])
def test_a_result_in_the_place_of_the_function(ask):
    name = ask.__name__
    with pytest.raises(TypeError) as refused:
        ask(torch_conv.gaussian_blur2d(torch.ones(8, 8), 5, 1.0))
    assert str(refused.value) == (
        f"{name}: fn must be a function, got Tensor; the arguments follow it: "
        f"torch_conv.{name}(torch_conv.gaussian_blur2d, x, 5, 1.0)"
    )
