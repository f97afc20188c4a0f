"""Replaces the depthwise layers of a model."""

from collections.abc import Iterable
from textwrap import fill
from typing import Any

import torch
from torch import nn

from torch_conv.nn.conv import Conv1d, Conv2d, Conv3d

_OURS: dict[type[nn.Module], type[Conv1d] | type[Conv2d] | type[Conv3d]] = {
    nn.Conv1d: Conv1d,
    nn.Conv2d: Conv2d,
    nn.Conv3d: Conv3d,
}
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


class Replaced(list[str]):
    """The names of the replaced convolutions, a list; `print` shows the others as well.

    Attributes:
        left: for each convolution that was not replaced, by its name, the reason.
    """

    def __init__(self, names: Iterable[str] = (), left: dict[str, str] | None = None) -> None:
        super().__init__(names)
        self.left = left or {}

    def __str__(self) -> str:
        lines = [_listed(f"replaced {len(self)}", self, len(self))]
        for reason in dict.fromkeys(self.left.values()):
            names = [name for name, why in self.left.items() if why == reason]
            lines.append(_listed(f"left {len(names)} because {reason}", names, 3))
        return "\n".join(lines)


def _listed(title: str, names: list[str], most: int) -> str:
    shown = [name or "the model itself" for name in names[:most]]
    rest = [f"and {len(names) - most} more"] if len(names) > most else []
    text = f"{title}: {', '.join(shown + rest)}" if names else title
    return fill(text, 100, subsequent_indent="  ", break_on_hyphens=False)


def replace_depthwise(model: nn.Module) -> Replaced:
    """Turns every depthwise convolution of a model into one of `torch_conv.nn`, in place, and returns their names.

    Only the class of a module changes. References to the module, its parameters and its hooks stay valid, and the
    `state_dict` stays the same. `model` may be such a convolution itself, with the name ''. A second call changes
    nothing.

    Args:
        model: module whose `torch.nn.Conv1d`, `Conv2d` and `Conv3d` with one input channel a group (any number of
            output channels, more than one group) change. Subclasses stay as they are, and so do parametrized modules
            and modules with a `forward` of their own. Code that looks for torch's classes by exact type, such as the
            fusions of `torch.ao.quantization`, must run before.

    Returns:
        A `Replaced`: the qualified names of the changed modules, each once, in the order of `model.named_modules()`.
        Its attribute `left` maps the names of all other convolutions to the reasons, and `print` shows both.

    Raises:
        TypeError: if `model` is no module.

    Equivalent to:
        a `Conv1d`, `Conv2d` or `Conv3d` of `torch_conv.nn` in the place of each, with the same parameters

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Conv2d(8, 16, 3, groups=8), torch.nn.Conv2d(16, 8, 1))
        >>> replaced = replace_depthwise(model)
        >>> replaced
        ['0']
        >>> replaced.left
        {'1': 'dense (groups=1)'}
        >>> model[0]
        Conv2d(8, 16, kernel_size=(3, 3), stride=(1, 1), groups=8)
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"replace_depthwise: model must be of type Module, got {type(model).__name__}")
    replaced = Replaced()
    for name, module in model.named_modules():
        if not _is_convolution(module):
            continue
        reason = _why_not(module)
        if reason:
            replaced.left[name] = reason
            continue
        module.__class__ = _OURS[type(module)]
        module.activation = None
        module.algorithm = "auto"
        replaced.append(name)
    return replaced


def _is_convolution(module: Any) -> bool:
    scripted = isinstance(module, torch.jit.ScriptModule)
    return isinstance(module, (*_OURS, *_TRANSPOSED)) or (
        scripted and module.original_name in ("Conv1d", "Conv2d", "Conv3d")
    )


def _why_not(module: Any) -> str:
    """The reason why a convolution is not replaced, or ""."""
    if isinstance(module, torch.jit.ScriptModule):
        return "scripted"
    if isinstance(module, tuple(_OURS.values())):
        return "already of torch_conv.nn"
    if isinstance(module, _TRANSPOSED):
        return "transposed"
    if isinstance(module, nn.modules.lazy.LazyModuleMixin):
        return "lazy, without its number of channels"
    if module.groups == 1:
        return "dense (groups=1)"
    if module.groups != module.in_channels:
        return f"grouped ({module.in_channels // module.groups} input channels a group)"
    if nn.utils.parametrize.is_parametrized(module):
        return "parametrized"
    if type(module) not in _OURS:
        return f"of the subclass {type(module).__name__}"
    if "forward" in vars(module) or "_conv_forward" in vars(module):
        return "given a forward of its own"
    return ""
