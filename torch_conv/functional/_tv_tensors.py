"""Results of torchvision's images, videos and masks, which keep the class of the input."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from torch import Tensor


def is_picture(kind: type) -> bool:
    """Whether a class is `torchvision.tv_tensors.Image`, `Video` or `Mask`, or derives from one."""
    known: Any = sys.modules.get("torchvision.tv_tensors")  # objects of these classes exist only where it is imported
    # Another thread may be importing it; `wrap` comes last.
    return hasattr(known, "wrap") and issubclass(kind, (known.Image, known.Video, known.Mask))


def of_picture(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`call` on the picture as a plain tensor; a new result with as many dimensions is of the picture's class."""
    picture = args[0] if args else kwargs["input"]
    plain = picture.as_subclass(Tensor)
    result = call(plain, *args[1:], **kwargs) if args else call(**(kwargs | {"input": plain}))
    if type(result) is not Tensor or result is kwargs.get("out") or result.dim() != picture.dim():
        return result
    return sys.modules["torchvision.tv_tensors"].wrap(result, like=picture)
