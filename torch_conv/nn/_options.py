"""What the filters' modules share: their arguments are tried where they are built, and are what `repr` shows."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from torch_conv._numbers import refuse_gradient, takes_tensor

LARGE = 1 << 20  # pixels along an axis: more than any window has taps


class Options(nn.Module):
    """A module whose attributes are the arguments that it was built with."""

    algorithm: str

    def try_options(self, forward: Callable[[Tensor], Tensor], axes: int, like: Any = None) -> None:
        """Refuses what no image could be filtered with: in the function's sentence, under the class's name.

        `forward` is called on an image that has no pixel, though large planes, for the checks alone. `like` may be a
        tensor with a row per sample. The algorithm is left out: what serves on a GPU alone is asked for by the call.
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
                forward(image)
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
    """The library's class: whoever derives from it may have other arguments."""
    return next(c for c in type(module).__mro__ if c.__module__.startswith("torch_conv.nn."))


def settled(value: Any) -> Any:
    """A list as a tuple, which nobody changes later."""
    return tuple(value) if isinstance(value, list) else value


def as_float(number: Any) -> Any:
    """TorchScript tells an integer from a float, where the functions do not."""
    return float(number) if isinstance(number, int) else number
