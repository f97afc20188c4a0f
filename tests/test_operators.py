"""The table of operators holds every registered schema, and every consumer covers the table."""

import pytest
import torch

from torch_conv.dispatch import batching, flops, operators
from torch_conv.fakes import registration

SCHEMAS = {
    schema.name.removeprefix("torch_conv::") + (f".{schema.overload_name}" if schema.overload_name else "")
    for schema in torch._C._jit_get_all_schemas()
    if schema.name.startswith("torch_conv::")
}
FORMS = {form for operator in operators.OPERATORS.values() for form in operator.forms()}
COMPUTING = {form for form in FORMS if not form.endswith("_query") and "_query." not in form}


def has_kernel(name: str, key: str) -> bool:
    packet, _, overload = name.partition(".")
    return torch._C._dispatch_has_kernel_for_dispatch_key(f"torch_conv::{packet}.{overload}".removesuffix("."), key)


def test_the_table_holds_every_schema_and_nothing_else():
    assert FORMS | set(operators.UTILITIES) == SCHEMAS
    assert not FORMS & set(operators.UTILITIES)


def test_every_operator_has_a_fake():
    assert set(registration._FAKES) == COMPUTING - {"_weight_gradient"}  # which nobody traces


def test_every_operator_has_an_autograd_kernel():
    assert {name for name in COMPUTING if has_kernel(name, "Autograd")} == COMPUTING


def test_every_operator_is_mapped_or_refuses_it():
    ours = {name for name in COMPUTING if operators.OPERATORS.get(name, operators.OPERATORS["box2d"]).kind != "ladder"}
    ours -= {"_weight_gradient", "_weight_gradient_or_torch"}
    assert {name for name in COMPUTING if has_kernel(name, "FuncTorchBatched")} == ours
    assert all("does not support torch.vmap" in sentence for sentence in batching.refusals().values())


def test_every_operator_has_a_count_of_flops():
    gradients = {"_weight_gradient", "_weight_gradient_or_torch"}
    assert set(flops.formulas()) == {name.partition(".")[0] for name in COMPUTING} - gradients


@pytest.mark.parametrize("name", [n for n, o in operators.OPERATORS.items() if o.kernels])
def test_arguments_of_the_table_are_the_schema_s(name):
    operator, names = operators.OPERATORS[name], operators.Signature(name).names
    assert {*operator.kernels, *operator.choices} <= set(names)
