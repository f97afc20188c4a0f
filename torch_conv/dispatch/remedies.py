"""The refusal of a value in the place of a tensor. It names the line that makes one of an array or a picture."""

from __future__ import annotations

from os import PathLike
from typing import Any

from torch import Tensor

_MAKES = " makes one"
# By the name of a class or of one that it derives from: this module imports neither numpy nor Pillow.
_REMEDIES = {
    "PIL.Image.Image": "torchvision.transforms.v2.functional.pil_to_tensor({})" + _MAKES,
    "torch_conv.split.SplitTensor": "{}.gather()" + _MAKES,
}


def no_tensor(name: str, argument: str, value: Any) -> TypeError:
    """The refusal of `value`, which is no tensor."""
    got, remedy = _kind_and_remedy(argument, value)
    return _refusal(f"{name}: {argument} must be a torch.Tensor, got {got}", remedy)


def no_dtensor(name: str, argument: str, value: Any) -> TypeError:
    """The refusal of `value`, which is no DTensor."""
    got, remedy = ("Tensor", argument + _MAKES) if isinstance(value, Tensor) else _kind_and_remedy(argument, value)
    if remedy.endswith(_MAKES):
        tensor = remedy.removesuffix(_MAKES)
        remedy = f"torch.distributed.tensor.distribute_tensor({tensor}, mesh, placements)" + _MAKES
    return _refusal(f"{name}: {argument} must be a DTensor, got {got}", remedy)


def _refusal(sentence: str, remedy: str) -> TypeError:
    return TypeError(f"{sentence}; {remedy}" if remedy else sentence)


def _kind_and_remedy(argument: str, value: Any) -> tuple[str, str]:
    """The name of a value's class, and how to make a tensor of the value, or ""."""
    got, remedy = type(value).__name__, ""
    if isinstance(value, (list, tuple)):
        of_tensors = len(value) > 0 and isinstance(value[0], Tensor)
        remedy = ("torch.stack({})" if of_tensors else "torch.tensor({})") + _MAKES
    elif argument == "kernel" and isinstance(value, str):
        remedy = "torch_conv.kernels.named({})" + _MAKES
    elif argument != "kernel" and isinstance(value, (str, PathLike)):
        remedy = "torchvision.io.decode_image({}) reads a picture"
    elif hasattr(value, "__dlpack__"):
        remedy = "torch.from_dlpack({})" + _MAKES
    for kind in type(value).__mro__:
        known = f"{kind.__module__}.{kind.__qualname__}"
        if known in _REMEDIES:
            got, remedy = known.removeprefix("torch_conv.split."), _REMEDIES[known]
        elif known == "numpy.ndarray":
            got, remedy = known, _of_array(argument, value) + _MAKES
    return got, remedy.format(argument)


def _of_array(argument: str, array: Any) -> str:
    """The line that makes a tensor of a numpy array: channels first, and no negative strides."""
    made = "torch.from_numpy({})"
    if any(stride < 0 for stride in array.strides):
        made = "torch.from_numpy({}.copy())"
    is_picture = argument == "input" and array.ndim == 3 and array.shape[-1] in (1, 3, 4)
    return made + ".movedim(-1, -3)" if is_picture else made
