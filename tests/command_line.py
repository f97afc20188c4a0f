"""Commands run in this process, as a test wants them: options in, exit status out."""

from importlib.util import find_spec

import pytest

import torch_conv_cli

with_codecs = pytest.mark.skipif(find_spec("imagecodecs") is None, reason="imagecodecs is not installed")


def run(*arguments):
    """The exit status."""
    return torch_conv_cli.main([str(a) for a in arguments])


def prog(arguments):
    """The command's name, with which its refusals begin."""
    return " ".join(["torch-conv", *arguments[: 2 if arguments[0] == "bench" else 1]])


def refused(capsys, *arguments):
    """The one sentence of a command that ends with status 2."""
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.rstrip("\n")
