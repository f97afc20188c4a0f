"""Signatures for type checkers and `inspect`: the calls of tests/typed_calls.py, and words as functions take them."""

import ast
import inspect
import json
import re
import subprocess
import sys
import typing
import venv
from collections.abc import Sequence
from pathlib import Path

import public_calls
import pytest
import torch
import typed_calls

import torch_conv
from torch_conv import compat, distributed, kernels, nn, split
from torch_conv import typing as words
from torch_conv.dispatch import borders

ROOT = Path(__file__).parents[1]
CALLS = Path(typed_calls.__file__)
FACADES = [compat.causal_conv1d, compat.cv2, compat.scipy_ndimage, compat.torchvision]
PUBLIC = [getattr(module, name) for module in (torch_conv.functional, kernels, nn, *FACADES) for name in module.__all__]
PUBLIC += [getattr(distributed, name) for name in distributed.__all__ if name in torch_conv.functional.__all__]
PUBLIC += [distributed.halo_exchange, distributed.verify, torch_conv.explain, torch_conv.prepare, split]
PUBLIC = [function for function in PUBLIC if callable(function)]  # OpenCV has constants
WORDS = {name: typing.get_args(getattr(words, name)) for name in words.__all__}


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "basedpyright"])
def test_a_checker_accepts_right_calls_and_refuses_wrong_ones(checker, tmp_path):
    """In strict mode, against the package in pip's folder."""
    pytest.importorskip(checker)
    (tmp_path / "calls.py").write_text(CALLS.read_text())
    venv.create(tmp_path / "venv", with_pip=False)
    (site,) = (tmp_path / "venv").glob("lib/python3*/site-packages")
    (site / "torch_conv").symlink_to(ROOT / "torch_conv")
    (site / "torch.pth").write_text(str(Path(torch.__file__).parent.parent))
    if checker == "mypy":
        python = tmp_path / "venv" / "bin" / "python"
        options = ["--strict", "--python-executable", python, "--hide-error-context", "--cache-dir", tmp_path / "cache"]
    else:
        settings = {"typeCheckingMode": "strict", "venvPath": ".", "venv": "venv"}
        (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
        options = []
    done = subprocess.run(
        [sys.executable, "-m", checker, *options, "calls.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    objected = {int(line) for line in re.findall(r"calls\.py:(\d+)(?::\d+)?(?: -|:) error", done.stdout)}
    wrong = {i for i, line in enumerate(CALLS.read_text().splitlines(), 1) if "# wrong:" in line}
    assert len(wrong) >= 30
    assert objected == wrong, done.stdout + done.stderr
    assert not re.search("warning: |: note: Revealed", done.stdout)


RIGHT = [f for name, f in vars(typed_calls).items() if inspect.isfunction(f) and f.__module__ == "typed_calls"]


@pytest.mark.parametrize("calls", [f for f in RIGHT if not f.__name__.startswith("wrong")])
def test_right_calls_run(calls):
    calls()


@pytest.mark.parametrize("function", PUBLIC, ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_every_argument_has_a_type(function):
    """`inspect` and `help` show it; `Any` stands only for the further arguments of a call."""
    hints = typing.get_type_hints(function.__init__ if inspect.isclass(function) else function)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        assert hints.get(parameter.name, typing.Any) not in (typing.Any, type(None)), parameter
    assert inspect.isclass(function) or hints["return"] is not typing.Any


def test_numbers_per_axis_show_what_is_taken():
    parameters = inspect.signature(torch_conv.gaussian_blur2d).parameters
    assert str(parameters["kernel_size"]) == "kernel_size: int | collections.abc.Sequence[int] | None = None"
    assert parameters["sigma"].annotation == torch.Tensor | float | Sequence[float] | None
    assert parameters["truncate"].kind is inspect.Parameter.KEYWORD_ONLY
    assert typing.get_type_hints(torch_conv.filter2d) == {
        **{name: p.annotation for name, p in inspect.signature(torch_conv.filter2d).parameters.items()},
        "return": torch.Tensor,
    }


def test_borders_are_those_of_cpp():
    assert set(words.Border.__args__) == set(borders._NAMES)
    assert words.Border.__args__[: len(borders.BORDERS)] == borders.BORDERS


def word_arguments():
    """(function, argument, the words that its annotation names), read from the source: at run time words are `str`."""
    for name in public_calls.calls():
        module = ast.parse(inspect.getsource(sys.modules[getattr(torch_conv, name).__module__]))
        definition = [node for node in module.body if getattr(node, "name", "") == name][-1]
        for argument in definition.args.args + definition.args.kwonlyargs:
            text = ast.unparse(argument.annotation)
            alias = "Padding" if text.startswith("_size_") else re.sub(r"\W|Optional", "", text)
            if alias in WORDS:
                yield name, argument.arg, alias


@pytest.mark.parametrize(("name", "argument", "alias"), list(word_arguments()))
def test_a_function_takes_the_words_of_its_types_and_no_others(name, argument, alias):
    """A word of the type runs, or the call at hand is refused for another reason."""
    for word in {word for group in WORDS.values() for word in group} | {"clamp"}:
        refused = ""
        try:
            getattr(torch_conv, name)(**{**public_calls.calls()[name], argument: word})
        except ValueError as error:
            refused = str(error)
        if word in WORDS[alias]:
            assert not refused or re.search("serve|does not fit", refused), word
        else:
            assert refused, word
