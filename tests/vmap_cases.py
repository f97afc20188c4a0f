"""Cases of the tests of torch.vmap: calls, and the comparison of torch.vmap with a loop over the examples."""

from functools import partial

import torch

import torch_conv

of = torch.ops.torch_conv
N = 3
IMAGE, VOLUME, SEQUENCE = (2, 4, 9, 10), (2, 2, 6, 7, 8), (2, 3, 12)

# name: a call, the image's shape, and the shapes of other arguments that may be mapped.
CALLS = {
    "filter2d": (torch_conv.filter2d, IMAGE, [(3, 3)]),
    "filter2d, of samples": (torch_conv.filter2d, IMAGE, [(2, 3, 3)]),
    "filter2d, of channels": (partial(torch_conv.filter2d, padding="valid"), IMAGE, [(1, 4, 2, 3)]),
    "filter2d, of one image": (torch_conv.filter2d, (9, 10), [(3, 3)]),
    "filter2d, unbatched": (torch_conv.filter2d, (4, 9, 10), [(1, 4, 3, 3)]),
    "filter2d, of many dimensions": (torch_conv.filter2d, (2, 1, 4, 9, 10), [(3, 3)]),
    "filter1d": (partial(torch_conv.filter1d, dim=-2), IMAGE, [(2, 3)]),
    "filter2d_separable": (torch_conv.filter2d_separable, IMAGE, [(3,), (2, 4, 5)]),
    "filter3d": (partial(torch_conv.filter3d, stride=2), VOLUME, [(2, 3, 3, 3)]),
    "filter3d_separable": (torch_conv.filter3d_separable, VOLUME, [(3,), (1, 3), (2, 5)]),
    "box_blur": (partial(torch_conv.box_blur, kernel_size=(3, 4)), IMAGE, []),
    "box_blur3d": (partial(torch_conv.box_blur3d, kernel_size=3), VOLUME, []),
    "gaussian_blur2d": (lambda x: torch_conv.gaussian_blur2d(x, 5, 1.5), IMAGE, []),
    "sobel": (torch_conv.sobel, IMAGE, []),
    "spatial_gradient": (torch_conv.spatial_gradient, (4, 9, 10), []),
    "gaussian_sobel": (of.gaussian_sobel2d, IMAGE, [(2, 3), (2, 3)]),
    "unsharp_mask": (lambda x: torch_conv.unsharp_mask(x, 9, 2.0), IMAGE, []),
    "difference_of_gaussians": (lambda x: torch_conv.difference_of_gaussians(x, 2.0), IMAGE, []),
    "structure_tensor": (of.structure_tensor2d, IMAGE, [(1, 3), (2, 3)]),
    "thin_edges": (of.thin_edges2d, IMAGE, [(3,), (3,)]),
    "gaussian_gradient_magnitude3d": (of.gaussian_gradient3d, VOLUME, [(3,), (2, 3), (1, 3)]),
    "conv1d": (partial(torch_conv.conv1d, padding=1, groups=4), (2, 4, 20), [(8, 1, 3), (8,)]),
    "conv2d": (partial(torch_conv.conv2d, padding=1, groups=4), IMAGE, [(4, 1, 3, 3), (4,)]),
    "conv2d, unbatched": (partial(torch_conv.conv2d, groups=4), (4, 9, 10), [(4, 1, 3, 3), (4,)]),
    "conv2d, bank": (torch_conv.conv2d, IMAGE, [(6, 4, 3, 3)]),
    "conv2d, same": (partial(of.conv2d, padding="same", groups=4), IMAGE, [(4, 1, 3, 4)]),
    "conv2d, activation": (partial(torch_conv.conv2d, groups=4, activation="silu"), IMAGE, [(4, 1, 3, 3), (4,)]),
    "conv2d, dense": (torch_conv.conv2d, (2, 16, 9, 10), [(16, 16, 3, 3)]),
    "conv3d": (partial(torch_conv.conv3d, groups=2, stride=2), VOLUME, [(2, 1, 3, 3, 3)]),
    "causal_conv1d": (torch_conv.causal_conv1d, SEQUENCE, [(3, 4), (3,)]),
    "causal_conv1d, states": (
        lambda x, w, before: torch_conv.causal_conv1d(x, w, initial_states=before, return_final_states=True)[1],
        SEQUENCE,
        [(3, 4), (2, 3, 3)],
    ),
}


def one_by_one(call, stacks, dims):
    return torch.stack(
        [call(*(t[0] if d is None else t[i] for t, d in zip(stacks, dims, strict=True))) for i in range(N)]
    )


def mapped(call, stacks, dims):
    """A call with the examples in the last dimension."""
    given = [t[0] if d is None else t.movedim(0, d) for t, d in zip(stacks, dims, strict=True)]
    return torch.vmap(call, tuple(dims))(*given)


def close(got, expected):
    assert got.dtype == expected.dtype
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
