"""Types of the façades' arguments. Only type checkers read those of numpy and Pillow, which need not be installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, Union, cast, overload

import torch
from torch import Tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike as ArrayLike
    from numpy.typing import DTypeLike
    from PIL.Image import Image

    Array = np.ndarray[Any, np.dtype[Any]]
else:
    ArrayLike = DTypeLike = Image = Array = Any

Ints = Union[int, Sequence[int]]  # noqa: UP007 (Python 3.10 takes no | of these at run time)
Floats = Union[float, Sequence[float]]  # noqa: UP007
Output = Union[DTypeLike, torch.dtype, Tensor, Array, None]  # noqa: UP007
Mode = Literal["reflect", "grid-mirror", "mirror", "nearest", "wrap", "grid-wrap", "constant", "grid-constant"]
Modes = Union[Mode, Sequence[Mode]]  # noqa: UP007

# An image, and a result of its kind.
ArrayImage = TypeVar("ArrayImage", Tensor, Array, Union[Tensor, Array])  # noqa: UP007
PilImage = TypeVar("PilImage", Tensor, Image, Union[Tensor, Image])  # noqa: UP007

Rest = ParamSpec("Rest")


class OfArrays(Protocol[Rest]):
    """A function that gives a tensor for a tensor, and an array for an array and for a list."""

    @overload
    def __call__(self, input: Tensor, *args: Rest.args, **kwargs: Rest.kwargs) -> Tensor: ...
    @overload
    def __call__(self, input: ArrayLike, *args: Rest.args, **kwargs: Rest.kwargs) -> Array: ...


def of_arrays(fn: Callable[Concatenate[Any, Rest], Any]) -> OfArrays[Rest]:
    return cast(OfArrays[Rest], fn)
