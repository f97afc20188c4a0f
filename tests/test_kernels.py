"""torch_conv.kernels: windows by name."""

import cv2
import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
from refusals import refuses
from strategies import make_image, make_window
from tolerance import assert_same_bits

from torch_conv import explain, filter2d, kernels

STENCILS = {
    "sobel_x": [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]],
    "sobel_y": [[-1, -2, -1], [0, 0, 0], [1, 2, 1]],
    "scharr_x": [[-3, 0, 3], [-10, 0, 10], [-3, 0, 3]],
    "scharr_y": [[-3, -10, -3], [0, 0, 0], [3, 10, 3]],
    "prewitt_x": [[-1, 0, 1], [-1, 0, 1], [-1, 0, 1]],
    "prewitt_y": [[-1, -1, -1], [0, 0, 0], [1, 1, 1]],
    "laplacian": [[0, 1, 0], [1, -4, 1], [0, 1, 0]],
    "sharpen": [[0, -1, 0], [-1, 5, -1], [0, -1, 0]],
    "identity": [[0, 0, 0], [0, 1, 0], [0, 0, 0]],
}


@pytest.mark.parametrize("name", STENCILS)
def test_stencils(name):
    assert getattr(kernels, name)().tolist() == STENCILS[name]
    assert torch.equal(kernels.named(name, 3), getattr(kernels, name)())


@pytest.mark.parametrize("dx", [1, 0])
def test_derivatives_are_opencv_s(dx):
    for name, ksize in (("sobel", 3), ("scharr", cv2.FILTER_SCHARR)):
        x, y = cv2.getDerivKernels(dx, 1 - dx, ksize)
        assert torch.equal(getattr(kernels, f"{name}_{'yx'[dx]}")(), torch.from_numpy(np.outer(y, x)))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 31])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.5, None])
def test_gaussian1d(size, sigma):
    taps = kernels.gaussian1d(size, sigma, dtype=torch.float64)
    if size % 2:  # OpenCV's window is for odd sizes; its default sigma is ours
        ours = sigma or 0.3 * ((size - 1) * 0.5 - 1) + 0.8
        expected = cv2.getGaussianKernel(size, ours, cv2.CV_64F)[:, 0]
        np.testing.assert_allclose(taps.numpy(), expected, rtol=1e-12)
    assert taps.sum().item() == pytest.approx(1, abs=1e-14)
    assert torch.equal(taps, taps.flip(0))
    assert kernels.gaussian1d(size, sigma).dtype == torch.float32


def test_a_tiny_sigma_is_the_identity():
    assert kernels.gaussian1d(5, 1e-200).tolist() == [0, 0, 1, 0, 0]


def test_gaussian2d_and_3d_are_outer_products():
    x, y, z = (kernels.gaussian1d(k, s, dtype=torch.float64) for k, s in ((3, 0.5), (5, 1.0), (7, 2.0)))
    torch.testing.assert_close(kernels.gaussian2d((5, 3), (1.0, 0.5), dtype=torch.float64), torch.outer(y, x))
    got = kernels.gaussian3d((7, 5, 3), (2.0, 1.0, 0.5), dtype=torch.float64)
    torch.testing.assert_close(got, torch.einsum("i,j,k->ijk", z, y, x))


def test_gaussian_against_scipy():
    impulse = np.zeros((1, 33))
    impulse[0, 16] = 1
    expected = ndi.gaussian_filter1d(impulse, 2.0, axis=1)[0, 8:25]
    np.testing.assert_allclose(kernels.gaussian1d(17, 2.0, dtype=torch.float64).numpy(), expected, rtol=1e-12)


def test_sigma_gives_the_size():
    volume = np.zeros((25, 25, 25))
    volume[12, 12, 12] = 1
    for sigma, truncate in (((2.0, 1.0, 0.3), 4.0), ((1.2, 1.2, 2.0), 3.0)):
        taps = kernels.gaussian3d(sigma=sigma, truncate=truncate, dtype=torch.float64)
        assert taps.shape == tuple(2 * int(truncate * s + 0.5) + 1 for s in sigma)
        of_scipy = ndi.gaussian_filter(volume, sigma, truncate=truncate)
        inside = tuple(slice(12 - k // 2, 13 + k // 2) for k in taps.shape)
        np.testing.assert_allclose(taps.numpy(), of_scipy[inside], rtol=1e-12)
        assert of_scipy.sum() == pytest.approx(of_scipy[inside].sum())
    assert torch.equal(kernels.gaussian1d(sigma=2), kernels.gaussian1d(17, 2.0))
    assert torch.equal(kernels.gaussian2d(None, 2), kernels.gaussian2d(17, 2.0))


def test_sigma_of_numpy_and_of_no_number():
    expected = kernels.gaussian2d(None, (2.0, 1.0))
    for sigma in (np.array([2, 1]), (np.float32(2), 1), torch.tensor([2.0, 1.0])):
        assert torch.equal(kernels.gaussian2d(sigma=sigma), expected)
    assert torch.equal(kernels.gaussian3d(sigma=np.float32(2)), kernels.gaussian3d(sigma=2.0))
    for sigma in ("2", (1.0, "2")):
        with refuses(TypeError, "gaussian2d: sigma must be a number, got str"):
            kernels.gaussian2d(3, sigma)


@pytest.mark.parametrize("size", [1, 3, (2, 5)])
def test_box(size):
    window = kernels.box(size, dtype=torch.float64)
    assert window.shape == ((size, size) if isinstance(size, int) else size)
    assert window.unique().numel() == 1
    assert window.sum().item() == pytest.approx(1)


@pytest.mark.parametrize("size", [1, 3, (2, 5, 4)])
def test_boxes_and_identities_of_volumes(size):
    window, one = kernels.box3d(size, dtype=torch.float64), kernels.identity3d(size)
    shape = (size,) * 3 if isinstance(size, int) else size
    assert window.shape == one.shape == shape
    assert window.unique().numel() == 1
    assert window.sum().item() == pytest.approx(1)
    assert one.sum() == 1
    assert one[tuple((k - 1) // 2 for k in shape)] == 1


@pytest.mark.parametrize(("variant", "neighbours"), [("6", 6), ("26", 26)])
def test_laplacians_of_volumes(variant, neighbours):
    window = kernels.laplacian3d(variant=variant)
    assert window.shape == (3, 3, 3)
    assert window.sum() == 0
    assert window.eq(1).sum() == neighbours
    assert window[1, 1, 1] == -neighbours
    for permuted in (window.transpose(0, 1), window.transpose(1, 2), window.flip(0)):
        assert torch.equal(permuted, window)
    if variant == "6":
        impulse = np.zeros((5, 5, 5))
        impulse[2, 2, 2] = 1
        np.testing.assert_array_equal(ndi.laplace(impulse)[1:4, 1:4, 1:4], window.numpy())


@pytest.mark.parametrize("variant", ["box", "4", "8", "opencv3"])
def test_laplacians_sum_to_nothing(variant):
    window = kernels.laplacian(3, variant=variant)
    assert window.sum() == 0
    assert window.abs().sum() > 0
    assert torch.equal(window, window.T)


def test_emboss_keeps_the_brightness():
    window = kernels.emboss()
    assert window.sum() == 1
    assert torch.equal(window.T, window)
    assert window[0, 0] == -window[2, 2]


@pytest.mark.parametrize("name", kernels.names())
def test_every_name_makes_a_window(name):
    window = kernels.named(name, 3, dtype=torch.float64)
    assert window.shape == (3, 3)
    assert window.dtype == torch.float64
    assert window.isfinite().all()


def test_names_are_sorted_and_complete():
    assert kernels.names() == sorted(kernels.names())
    assert {*STENCILS, "gaussian", "box", "emboss"} <= set(kernels.names())


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: kernels.gaussian1d(0, 1.0), "gaussian1d: size must be at least 1, got 0"),
        (lambda: kernels.gaussian1d(3, 0.0), "gaussian1d: sigma must be finite and greater than 0, got 0.0"),
        (lambda: kernels.gaussian2d((3, 3, 3), 1.0), "gaussian2d: size must be a number or 2 numbers, got 3 numbers"),
        (lambda: kernels.gaussian2d(3, (1.0, 0)), "gaussian2d: sigma must be finite and greater than 0, got 0.0"),
        (
            lambda: kernels.gaussian1d(sigma=float("inf")),
            "gaussian1d: sigma must be finite and greater than 0, got inf",
        ),
        (lambda: kernels.gaussian1d(9, float("nan")), "gaussian1d: sigma must be finite and greater than 0, got nan"),
        (lambda: kernels.gaussian1d(sigma=torch.ones(2)), "gaussian1d: sigma must be a number, got 2 numbers"),
        (
            lambda: kernels.gaussian1d(sigma=1e8),
            "gaussian1d: sigma 100000000.0 and truncate 4.0 make a kernel of more than 2^24 taps",
        ),
        (lambda: kernels.gaussian1d(1 << 30, 1.0), "gaussian1d: size must be at most 2^24, got 1073741824"),
        (
            lambda: kernels.gaussian2d(3, torch.ones(2, requires_grad=True)),
            "gaussian2d: sigma must not require a gradient, because a number gets none",
        ),
        (lambda: kernels.gaussian1d(), "gaussian1d: size or sigma must be given"),
        (lambda: kernels.gaussian3d(truncate=3.0), "gaussian3d: size or sigma must be given"),
        (
            lambda: kernels.gaussian2d(sigma=1.0, truncate=0.0),
            "gaussian2d: truncate must be finite and greater than 0, got 0.0",
        ),
        (lambda: kernels.box3d((3, 3)), "box3d: size must be a number or 3 numbers, got 2 numbers"),
        (lambda: kernels.identity3d(0), "identity3d: size must be at least 1, got 0"),
        (lambda: kernels.laplacian3d(variant="8"), "laplacian3d: variant must be '6' or '26', got '8'"),
        (lambda: kernels.laplacian(5), "laplacian: size must be 3 for variant '4', got (5, 5)"),
        (lambda: kernels.laplacian(variant="6"), "laplacian: variant must be 'box', '4', '8' or 'opencv3', got '6'"),
        (lambda: kernels.named("sobel_x", 5), "named: size of sobel_x must be 3, got 5"),
    ],
)
def test_bad_values(call, sentence):
    with refuses(ValueError, sentence):
        call()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: kernels.gaussian1d(3, "1"), "gaussian1d: sigma must be a number, got str"),
        (
            lambda: kernels.gaussian2d(3, torch.ones(2, 2)),
            "gaussian2d: sigma must be a number, got a tensor of float32",
        ),
        (lambda: kernels.box(3.0), "box: size must be of type int, got float"),
        (lambda: kernels.box(np.ones(2)), "box: size must be of type int, got float64"),
    ],
)
def test_bad_types(call, sentence):
    with refuses(TypeError, sentence):
        call()


def test_numbers_of_numpy_and_torch():
    expected = kernels.gaussian2d((3, 5), (1.0, 2.0))
    for of in (np.array, torch.tensor):
        assert torch.equal(kernels.gaussian2d(of([3, 5]), of([1.0, 2.0])), expected)
    assert torch.equal(kernels.gaussian1d(np.int64(5), np.float64(2.0)), kernels.gaussian1d(5, 2.0))
    assert torch.equal(kernels.box(np.int32(3)), kernels.box(3))
    assert torch.equal(kernels.gaussian2d(3, torch.tensor(1.0)), kernels.gaussian2d(3, 1.0))


def test_unknown_name():
    with pytest.raises(ValueError, match="^named: name must be one of .*, got 'nothing'$"):
        kernels.named("nothing")


GAUSSIAN = kernels.gaussian2d(31, 4.0, dtype=torch.float64)
DIFFERENCE = GAUSSIAN - kernels.gaussian2d(31, 6.4, dtype=torch.float64)
NOISE = make_window((31, 31), torch.float64)


@pytest.fixture
def elsewhere(monkeypatch):
    """Windows as if they lay on a device, from which the CPU receives copies."""
    monkeypatch.setattr(torch.Tensor, "cpu", torch.Tensor.clone)


@pytest.mark.parametrize(
    ("window", "comes"),
    [
        (GAUSSIAN, True),
        (GAUSSIAN.float(), True),
        (GAUSSIAN.float().double(), False),  # of full rank by its roundings
        (GAUSSIAN.half(), False),
        (torch.ones(31, 31).half(), True),
        (torch.ones(31, 31, dtype=torch.int64), True),
        (DIFFERENCE, True),
        (DIFFERENCE.float().t()[:, 1:], True),
        (DIFFERENCE.float().expand(2, 31, 31), True),
        (torch.stack([GAUSSIAN, DIFFERENCE]).float().expand(3, 2, 31, 31), True),
        (torch.stack([GAUSSIAN, NOISE]).float(), False),
        (NOISE, False),
        (NOISE.float(), False),
        (torch.full((9, 9), float("inf")), False),
        (torch.ones(9, 9), True),
        (torch.ones(7, 11), False),  # 77 taps
        (torch.ones(1, 201), False),
        (make_window((9, 4)) @ make_window((4, 9), seed=8), False),  # of rank 4, slower than directly
        (make_window((901, 2)) @ make_window((2, 901), seed=8), False),  # by FFT
    ],
    ids=lambda v: f"{v.dtype} {list(v.shape)}" if isinstance(v, torch.Tensor) else None,
)
def test_prepare_brings_windows_that_filter2d_makes_as_separable_passes(elsewhere, window, comes):
    got = kernels.prepare(window)
    assert (got is not window) == comes
    assert got.dtype == window.dtype
    assert torch.equal(got, window)
    dtype = window.dtype if window.is_floating_point() else torch.float32
    shape = (*(*window.shape[:-2], 1, 1)[:2], 2048, 2048)
    assert ("low_rank/" in str(explain(filter2d, torch.zeros(2048, dtype=dtype).expand(shape), window))) == comes


def test_a_prepared_window_has_a_gradient(elsewhere):
    window = GAUSSIAN.clone().requires_grad_()
    prepared = kernels.prepare(window)
    assert prepared is not window
    filter2d(torch.ones(80, 90, dtype=torch.float64), prepared, "circular").sum().backward()
    torch.testing.assert_close(window.grad, torch.full_like(window, 80 * 90))


@pytest.mark.parametrize("window", [GAUSSIAN, NOISE, torch.ones(3, 3)])
def test_windows_on_the_cpu_are_prepared(window):
    assert kernels.prepare(window) is window


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_windows_on_the_gpu_are_prepared(cuda, dtype):
    image = make_image((2, 3, 512, 640), dtype, device=cuda)
    for host in (GAUSSIAN.to(dtype), DIFFERENCE.to(dtype), DIFFERENCE.to(dtype).expand(2, 3, 31, 31)):
        window = kernels.prepare(host.to(cuda))
        assert window.device.type == "cpu"
        assert_same_bits(window, host)
        assert "filter2d: low_rank/" in str(explain(filter2d, image, window))
        assert_same_bits(filter2d(image, window), filter2d(image, host))
    for host in (NOISE.to(dtype), torch.ones(3, 3, dtype=dtype)):
        window = host.to(cuda)
        assert kernels.prepare(window) is window
    leaf = GAUSSIAN.to(cuda, dtype).requires_grad_()
    filter2d(torch.ones_like(image), kernels.prepare(leaf), "circular").sum().backward()
    torch.testing.assert_close(leaf.grad, torch.full_like(leaf, image.numel()))


@pytest.mark.parametrize(
    ("window", "kind", "sentence"),
    [
        (torch.ones(9), ValueError, "must have 2, 3 or 4 dimensions, got 1"),
        (torch.ones(1, 1, 1, 9, 9), ValueError, "must have 2, 3 or 4 dimensions, got 5"),
        (torch.ones(0, 9), ValueError, "must have at least one tap, got shape (0, 9)"),
        ([[1.0]], TypeError, "must be a torch.Tensor, got list; torch.tensor(window) makes one"),
        (torch.ones(9, 9).to_sparse(), TypeError, "must be a dense tensor, got sparse_coo"),
        (
            torch.ones(9, 9, dtype=torch.bool),
            TypeError,
            "must have dtype float32, float16, bfloat16, float64, uint8, int8, int16, uint16, int32 or int64, got bool",
        ),
    ],
)
def test_windows_that_cannot_be_prepared(window, kind, sentence):
    with refuses(kind, f"prepare: window {sentence}"):
        kernels.prepare(window)
