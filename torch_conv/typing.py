"""The words that functions and modules take, as types for programs that a type checker reads.

>>> import typing
>>> from torch_conv.typing import Padding
>>> typing.get_args(Padding)
('same', 'valid')
"""

from typing import Literal

Border = Literal[
    "constant",
    "replicate",
    "reflect",
    "symmetric",
    "circular",
    "skip",
    "zero_output",
    # aliases, in the order of the borders
    "zeros",
    "edge",
    "nearest",
    "mirror",
    "reflect_101",
    "reflect101",
    "reflect_1001",
    "grid-mirror",
    "wrap",
    "grid-wrap",
]
Padding = Literal["same", "valid"]
PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]  # of convolutions, as torch's
Behaviour = Literal["corr", "conv"]
Activation = Literal["relu", "relu6", "gelu", "silu", "hardswish"]
SequenceActivation = Literal["silu", "swish"]
GradientMode = Literal["sobel", "diff", "scharr", "prewitt"]
GradientMode3d = Literal["diff", "sobel"]
LaplacianVariant = Literal["box", "4", "8", "opencv3"]
Magnitude = Literal["l2", "l1"]

# Algorithms: of a function, or of all functions with the same ones.
FilterAlgorithm = Literal["auto", "direct", "tensor_core", "fft", "low_rank"]
Filter1dAlgorithm = Literal["auto", "direct", "fft"]
Filter3dAlgorithm = Literal["auto", "direct"]
SeparableAlgorithm = Literal["auto", "separable", "tensor_core", "fused"]
Separable3dAlgorithm = Literal["auto", "separable"]
BoxAlgorithm = Literal["auto", "box", "separable"]
GaussianAlgorithm = Literal["auto", "separable", "direct", "tensor_core"]
Gaussian3dAlgorithm = Literal["auto", "direct", "separable"]
DerivativeAlgorithm = Literal["auto", "fused", "separable", "direct"]
PipelineAlgorithm = Literal["auto", "fused", "separable"]
ConvAlgorithm = Literal["auto", "ours", "direct", "tensor_core", "torch"]

__all__ = [
    "Activation",
    "Behaviour",
    "Border",
    "BoxAlgorithm",
    "ConvAlgorithm",
    "DerivativeAlgorithm",
    "Filter1dAlgorithm",
    "Filter3dAlgorithm",
    "FilterAlgorithm",
    "Gaussian3dAlgorithm",
    "GaussianAlgorithm",
    "GradientMode",
    "GradientMode3d",
    "LaplacianVariant",
    "Magnitude",
    "Padding",
    "PaddingMode",
    "PipelineAlgorithm",
    "Separable3dAlgorithm",
    "SeparableAlgorithm",
    "SequenceActivation",
]


def __dir__() -> list[str]:
    return __all__
