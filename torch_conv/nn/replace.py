"""A model's depthwise layers on this project's kernels."""

from torch import nn

from torch_conv.nn.conv import Conv1d, Conv2d, Conv3d

_OURS: dict[type[nn.Module], type[Conv1d] | type[Conv2d] | type[Conv3d]] = {
    nn.Conv1d: Conv1d,
    nn.Conv2d: Conv2d,
    nn.Conv3d: Conv3d,
}


def replace_depthwise(model: nn.Module) -> list[str]:
    """Turns every depthwise convolution of a model into this project's, in place, and says which.

    The very modules change their class, and nothing else: whoever holds one of them, its parameters or its hooks (an
    optimizer, another name, a list) still does, and the `state_dict` stays as it is. `model` may be such a convolution
    itself; its name is ''. A second call finds nothing left to do.

    Args:
        model: its `torch.nn.Conv1d`, `Conv2d` and `Conv3d` with one input channel a group (any number of output
            channels, more than one group) are changed. Subclasses are left alone, parametrized modules among them
            (`torch.nn.utils.parametrize` makes a class for each), as are modules that were given a `forward` of their
            own. What looks for torch's classes by exact type, as the fusions of `torch.ao.quantization` do, no longer
            finds these: it comes before.

    Returns:
        The qualified names of what was changed, in the order of `model.named_modules()`; of a module with several
        names the first.

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
        if ours is None or not module.groups == module.in_channels > 1 or _has_its_own_way(module):
            continue
        module.__class__ = ours
        module.activation = None
        module.algorithm = "auto"
        replaced.append(name)
    return replaced


def _has_its_own_way(module: nn.Module) -> bool:
    return "forward" in vars(module) or "_conv_forward" in vars(module)
