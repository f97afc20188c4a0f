"""The base of the filters' modules: the constructor checks the arguments, and `repr` shows them."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from torch_conv.dispatch.numbers import refuse_gradient, takes_tensor
from torch_conv.functional._calls import Image

LARGE = 1 << 20  # pixels along an axis: more than the taps of any kernel


class Options(nn.Module):
    """A module whose attributes are the arguments of its constructor."""

    if TYPE_CHECKING:
        algorithm: Any

        def __call__(self, input: Image) -> Image: ...
        def __getattr__(self, name: str) -> Any: ...

    def keep_options(self, arguments: dict[str, Any]) -> None:
        """Stores the constructor's arguments, all but tensors: lists as tuples, which cannot be changed later."""
        for name, parameter in inspect.signature(_our_class(self)).parameters.items():
            if not takes_tensor(parameter.annotation):
                value = arguments[name]
                value = as_float(value) if parameter.annotation is float else value
                setattr(self, name, tuple(value) if isinstance(value, list) else value)

    def check_options(self, axes: int, like: Any = None, forward: Callable[[Tensor], Tensor] | None = None) -> None:
        """Refuses invalid arguments in the function's sentence, under the class's name.

        `forward` runs on a batch of 0 channels with large planes, so it checks and computes nothing. `like` may be a
        tensor with a row per sample. The algorithm is not checked, because it may serve GPUs only.
        """
        ours = _our_class(self)
        for parameter in inspect.signature(ours).parameters.values():
            if not takes_tensor(parameter.annotation):
                refuse_gradient(ours.__name__, parameter.name, getattr(self, parameter.name))
        rows, device = (like.size(0), like.device) if isinstance(like, Tensor) and like.dim() == 2 else (1, "cpu")
        image = torch.empty((rows, 0, *[LARGE] * axes), dtype=torch.float32, device=device)
        algorithm, self.algorithm = self.algorithm, "auto"
        try:
            with torch.no_grad():
                ours.forward(self, image) if forward is None else forward(image)
        except (TypeError, ValueError) as error:
            sentence = str(error).partition(": ")[2]
            raise type(error)(f"{ours.__name__}: {sentence}") from None
        finally:
            self.algorithm = algorithm

    def extra_repr(self) -> str:
        shown = []
        for parameter in list(inspect.signature(_our_class(self)).parameters.values()):
            value = getattr(self, parameter.name)
            if isinstance(value, Tensor):
                shown.append(f"{parameter.name}={tuple(value.shape)}")
            elif parameter.kind is not parameter.KEYWORD_ONLY or value != parameter.default:
                shown.append(f"{parameter.name}={value!r}")
        return ", ".join(shown)


def _our_class(module: nn.Module) -> type[nn.Module]:
    """The library's class; a class that derives from it may have other arguments."""
    return next(c for c in type(module).__mro__ if c.__module__.startswith("torch_conv.nn."))


def as_float(number: Any) -> Any:
    """An integer as a float, because TorchScript tells them apart."""
    return float(number) if isinstance(number, int) else number
