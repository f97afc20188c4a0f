"""Depthwise conv1d by the kernels for rows: bits of the general kernel, products within a rounding, edges, NaN."""

import pytest
import torch
import torch.nn.functional as F
from strategies import make_image, make_window
from tolerance import assert_same_bits

OP = torch.ops.torch_conv.conv1d
SHAPES = [(3, 4, 7), (2, 5, 64), (2, 8, 202), (3, 3, 333), (1, 2, 1024), (2, 4, 2051)]
LAYOUTS = {
    "dense": lambda x: x,
    "from the second element on": lambda x: F.pad(x, (1, 0))[..., 1:],
    "channels expanded": lambda x: x[:, :1].expand_as(x),
    "batch and channels swapped": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
}


def paddings(length, k):
    return [p for p in (0, 1, k // 2, k - 1, k + 4) if length + 2 * p >= k]


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("k", [1, 3, 4, 9, 15, 31])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_has_the_bits_of_general(cuda, pinned, dtype, k, layout):
    for shape in SHAPES:
        signal = LAYOUTS[layout](make_image(shape, dtype).to(cuda))
        weight, bias = (make_window(s, dtype).to(cuda) for s in ((2 * shape[1], 1, k), (2 * shape[1],)))
        for padding in paddings(shape[-1], k):
            for multiplier, stride in ((1, 1), (2, 1), (1, 2)):
                arguments = (
                    signal,
                    weight[: multiplier * shape[1]],
                    bias[: multiplier * shape[1]],
                    [stride],
                    [padding],
                )

                def call(arguments=arguments):
                    return OP(*arguments, groups=arguments[0].shape[1], algorithm="direct")

                got = pinned("rows", call)
                assert got is not None
                assert_same_bits(got, pinned("general", call))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("k", [8, 15, 16, 31, 34, 63])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_mma_is_within_a_rounding_and_has_a_general_variant(cuda, pinned, dtype, k, layout):
    served = 0
    for shape in SHAPES:
        signal = LAYOUTS[layout](make_image(shape, dtype).to(cuda))
        weight = make_window((shape[1], 1, k), dtype).to(cuda)
        for padding in paddings(shape[-1], k):

            def call(algorithm="tensor_core", signal=signal, weight=weight, padding=padding):
                return OP(signal, weight, padding=[padding], groups=signal.shape[1], algorithm=algorithm)

            got = pinned("rows_mma", call)
            if got is None:
                continue
            served += 1
            assert_same_bits(pinned("rows_mma_general", call), got)
            expected = F.conv1d(signal.double(), weight.double(), padding=padding, groups=shape[1])
            size = F.conv1d(signal.double().abs(), weight.double().abs(), padding=padding, groups=shape[1])
            off = (got.double() - expected).abs() - torch.finfo(dtype).eps / 2 * expected.abs()
            assert (off <= 2e-6 * size + torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps).all()
    assert served


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("length", [64, 333, 1024])
def test_nan_and_infinity_stay_in_their_windows(cuda, pinned, dtype, length):
    signal = make_image((4, 8, length), dtype).to(cuda)
    signal[1, 2, length // 2], signal[2, 3, 5], signal[3, 7, length - 1] = float("nan"), float("inf"), -float("inf")
    weight = make_window((8, 1, 31), dtype).to(cuda)
    expected = pinned("general", lambda: OP(signal, weight, padding=[15], groups=8, algorithm="direct"))

    def call():
        return OP(signal, weight, padding=[15], groups=8, algorithm="tensor_core")

    got = pinned("rows_mma", call)
    assert_same_bits(pinned("rows_mma_general", call), got)
    affected = ~expected.isfinite()
    assert affected.any()
    assert torch.equal(got.isfinite(), expected.isfinite())
    assert torch.equal(got[affected].nan_to_num(7), expected[affected].nan_to_num(7))
