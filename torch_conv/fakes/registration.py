"""Registers the fake implementations of all operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from torch_conv.dispatch.operators import OPERATORS, Operator, split_name
from torch_conv.dispatch.query import QueryMode
from torch_conv.fakes.convolutions import fake_convolution, fake_of_numbers, fake_weight_gradient
from torch_conv.fakes.filters import fake_filter, fake_ladder, fake_out
from torch_conv.fakes.sequences import fake_sequence
from torch_conv.fakes.shards import on_shards

Fake = Callable[..., Any]
_LIBRARY = torch.library.Library("torch_conv", "IMPL")
_FAKES: dict[str, Fake] = {}


def register() -> None:
    """Registers the fakes, and the results of calls that do not run. The package calls this function once."""
    for operator in OPERATORS.values():
        _FAKES.update(_fakes_of(operator))
    for name, fake in _FAKES.items():
        torch.library.register_fake(f"torch_conv::{name}", fake, lib=_LIBRARY)
    QueryMode.result_of = staticmethod(result_of)


def _fakes_of(operator: Operator) -> Iterator[tuple[str, Fake]]:
    """The fakes of an operator and its forms, without queries and `_weight_gradient`, which are never traced."""
    if operator.name == "_weight_gradient":
        return
    whole = _BY_NAME[operator.name] if operator.name in _BY_NAME else _BY_KIND[operator.kind](operator)
    yield operator.name, whole
    if operator.has_out:
        yield f"{operator.name}_out", fake_out(operator)
    if operator.has_split:
        yield split_name(operator.name), on_shards(operator, whole)


_BY_NAME: dict[str, Fake] = {"_conv_ours": fake_of_numbers, "_weight_gradient_or_torch": fake_weight_gradient}
_BY_KIND: dict[str, Callable[[Operator], Fake]] = {
    "filter": fake_filter,
    "chain": fake_filter,
    "convolution": lambda operator: fake_convolution(operator.axes),
    "sequence": fake_sequence,
    "ladder": fake_ladder,
}


def result_of(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """An uninitialised result of an operator, on the device of its image or of its shards."""
    image: Any = args[0] if args else next(kwargs[key] for key in ("input", "x", "shards") if key in kwargs)
    meta_arguments = tree_map_only(
        Tensor, lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta"), (args, kwargs)
    )
    result = _FAKES[name](*meta_arguments[0], **meta_arguments[1])

    def on(like: Tensor, device: torch.device) -> Tensor:
        return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=device)

    if isinstance(image, Tensor):
        return tree_map_only(Tensor, lambda t: on(t, image.device), result)
    shards = image if kwargs.get("wanted") is None else [image[i] for i in kwargs["wanted"]]
    return [on(part, shard.device) for part, shard in zip(result, shards, strict=True)]
