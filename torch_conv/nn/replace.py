"""Replaces the depthwise layers of a model."""

from torch import nn

from torch_conv.nn.conv import Conv1d, Conv2d, Conv3d

_OURS: dict[type[nn.Module], type[Conv1d] | type[Conv2d] | type[Conv3d]] = {
    nn.Conv1d: Conv1d,
    nn.Conv2d: Conv2d,
    nn.Conv3d: Conv3d,
}


def replace_depthwise(model: nn.Module) -> list[str]:
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
        The qualified names of the changed modules, in the order of `model.named_modules()`. A module with several names
        is listed by its first name.

    Raises:
        TypeError: if `model` is no module.

    Equivalent to:
        a `Conv1d`, `Conv2d` or `Conv3d` of `torch_conv.nn` in the place of each, with the same parameters

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Conv2d(8, 16, 3, groups=8), torch.nn.Conv2d(16, 8, 1))
        >>> replace_depthwise(model)
        ['0']
        >>> model[0]
        Conv2d(8, 16, kernel_size=(3, 3), stride=(1, 1), groups=8)
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"replace_depthwise: model must be of type Module, got {type(model).__name__}")
    replaced = []
    for name, module in model.named_modules():
        ours = _OURS.get(type(module))
        if ours is None or not module.groups == module.in_channels > 1 or _has_own_forward(module):
            continue
        module.__class__ = ours
        module.activation = None
        module.algorithm = "auto"
        replaced.append(name)
    return replaced


def _has_own_forward(module: nn.Module) -> bool:
    return "forward" in vars(module) or "_conv_forward" in vars(module)
