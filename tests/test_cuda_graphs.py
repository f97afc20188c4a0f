"""CUDA graphs, streams and the absence of synchronisation."""

import gc

import pytest
import torch
from strategies import make_image, make_window
from tolerance import assert_same_bits

import torch_conv

pytestmark = pytest.mark.cuda

CALLS = {
    "3x3, window on the GPU": lambda x, k: torch_conv.filter2d(x, k),
    "3x3, window on the CPU": lambda x, k: torch_conv.filter2d(x, make_window((3, 3))),
    "41x40, window on the CPU": lambda x, k: torch_conv.filter2d(x, make_window((41, 40)), algorithm="direct"),
    "flipped and normalized": lambda x, k: torch_conv.filter2d(x, k, "reflect", True, "same", "conv"),
    "separable 7": lambda x, k: torch_conv.filter2d_separable(x, make_window((7,)), make_window((7,))),
    "separable 31": lambda x, k: torch_conv.filter2d_separable(x, make_window((31,)), make_window((31,))),
    "separable 901": lambda x, k: torch_conv.filter2d_separable(x, make_window((901,)), make_window((901,))),
    "box 31": lambda x, k: torch_conv.box_blur(x, 31),
    "conv2d": lambda x, k: torch_conv.conv2d(
        x, k.expand(3, 1, 3, 3).contiguous(), groups=3, padding=1, algorithm="direct"
    ),
    "causal_conv1d": lambda x, k: torch_conv.causal_conv1d(x[:, :, 0], k, activation="silu"),
    "gaussian": lambda x, k: torch_conv.gaussian_blur2d(x, 9, 2.0),
    "sigma on the GPU": lambda x, k: torch_conv.gaussian_blur2d(x, 9, torch.full((2, 2), 1.5, device=x.device)),
    "unsharp": lambda x, k: torch_conv.unsharp_mask(x, 5, 1.0),
    "sobel": lambda x, k: torch_conv.sobel(x),
    "gaussian_sobel": lambda x, k: torch_conv.gaussian_sobel(x, 3, 1.0),
    "gradient": lambda x, k: torch_conv.spatial_gradient(x),
    "fused unsharp": lambda x, k: torch_conv.unsharp_mask(x, 9, 2.0),
    "fused sum of long windows": lambda x, k: torch_conv.difference_of_gaussians(x, 12.0),
    "gaussian_sobel, sigma on the GPU": lambda x, k: torch_conv.gaussian_sobel(
        x, 3, torch.full((2, 2), 1.5, device=x.device)
    ),
    "structure_tensor": lambda x, k: torch_conv.structure_tensor(x, 5, 1.0, algorithm="fused"),
    "thin_edges": lambda x, k: torch_conv.thin_edges(x, 5, 1.0),
    "thin_edges, apart": lambda x, k: torch_conv.thin_edges(x, 5, 1.0, algorithm="separable"),
    "downsample": lambda x, k: torch_conv.gaussian_downsample(x, 5, 1.0),
    "volumes, gradient magnitude": lambda x, k: torch_conv.gaussian_gradient_magnitude3d(x, 3, 1.0),
    "3x3x3, window on the GPU": lambda x, k: torch_conv.filter3d(x, k.expand(3, 3, 3).contiguous()),
    "3x3x3, window on the CPU": lambda x, k: torch_conv.filter3d(x, make_window((3, 3, 3))),
    "7x7x7, window on the CPU": lambda x, k: torch_conv.filter3d(x, make_window((7, 7, 7))),
    "volumes, separable 7": lambda x, k: torch_conv.filter3d_separable(x, *make_window((3, 7))),
    "volumes, box 9": lambda x, k: torch_conv.box_blur3d(x, 9),
    "conv3d": lambda x, k: torch_conv.conv3d(x, k.expand(2, 1, 3, 3, 3).contiguous(), groups=2, padding=1),
    "volumes, gaussian": lambda x, k: torch_conv.gaussian_blur3d(x, 5, 2.0),
    "volumes, sigma on the GPU": lambda x, k: torch_conv.gaussian_blur3d(
        x[:, None], 3, torch.full((2, 3), 1.5, device=x.device)
    ),
    "volumes, gradient": lambda x, k: torch_conv.spatial_gradient3d(x),
}


@pytest.mark.parametrize("name", CALLS)
def test_captured_and_replayed(cuda, name):
    image, kernel = make_image((2, 3, 40, 64), device=cuda), make_window((3, 3), device=cuda)
    call = CALLS[name]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call(image, kernel)  # warms the allocator up
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = call(image, kernel)
    for seed in (1, 2):
        image.copy_(make_image(image.shape, seed=seed))
        graph.replay()
        assert_same_bits(got, call(image, kernel))


@pytest.mark.parametrize("name", CALLS)
def test_no_call_waits_for_the_gpu(cuda, name):
    image, kernel = make_image((2, 3, 40, 64), device=cuda), make_window((3, 3), device=cuda)
    CALLS[name](image, kernel)
    torch.cuda.set_sync_debug_mode("error")
    try:
        CALLS[name](image, kernel)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", CALLS)
def test_runs_on_the_current_stream(cuda, name):
    """The image is written late on a side stream; a call on another stream would read zeros."""
    image, kernel = torch.zeros(2, 3, 40, 64, device=cuda), make_window((3, 3), device=cuda)
    values = make_image(image.shape, device=cuda)
    expected = CALLS[name](values, kernel)
    assert expected.abs().max() > 0
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        image.copy_(values)
        got = CALLS[name](image, kernel)
    stream.synchronize()
    assert_same_bits(got, expected)


def test_a_host_window_may_go_at_once(cuda):
    """The call has copied its arguments when it returns, also while the GPU is busy with other work."""
    image, kernel = make_image((2, 3, 40, 64), device=cuda), make_window((41, 40))
    expected = torch_conv.filter2d(image, kernel)
    torch.cuda._sleep(50_000_000)
    got = torch_conv.filter2d(image, kernel)
    kernel.fill_(float("nan"))
    assert_same_bits(got, expected)


@pytest.mark.parametrize("name", CALLS)
def test_extra_memory(cuda, own_kernels, name):
    """One-launch filters allocate their result only; taps and results of rows are small in comparison with an image."""
    image, kernel = make_image((2, 3, 256, 512), device=cuda), make_window((3, 3), device=cuda)
    CALLS[name](image, kernel)
    torch.cuda.synchronize()
    gc.collect()  # memory of earlier tests must not be freed in between
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    got = CALLS[name](image, kernel)
    torch.cuda.synchronize()
    extra = torch.cuda.max_memory_allocated() - before - got.numel() * 4
    one_launch = {"3x3, window on the GPU", "3x3, window on the CPU", "separable 7", "box 31", "gaussian", "unsharp"}
    one_launch |= {"sobel", "gradient", "gaussian_sobel", "structure_tensor", "thin_edges", "downsample"}
    if name in one_launch:
        assert extra == 0
    elif not name.startswith(("separable 901", "fused", "gaussian_sobel,", "thin_edges,", "volumes")):
        assert extra < 64 * 1024


@pytest.mark.multi_gpu
def test_the_current_device_stays(cuda):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    image, kernel = make_image((2, 3, 40, 64)), make_window((3, 3))
    for name, call in CALLS.items():
        got = call(image.to("cuda:1"), kernel.to("cuda:1"))
        assert torch.cuda.current_device() == 0, name
        assert_same_bits(got, call(image.to("cuda:0"), kernel.to("cuda:0")))
