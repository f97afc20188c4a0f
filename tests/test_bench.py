"""`torch-conv bench FAMILY`: what there is to measure, and what is refused."""

from __future__ import annotations

import pytest
from command_line import refused, run

from torch_conv.bench.families import NAMES, family_named


def test_the_families_are_listed(capsys):
    assert run("bench") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [*NAMES, "ladder", "volume", "scaling"]
    assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_every_family(name, capsys):
    """Each under a name of its own, on either device, whether or not there is a GPU."""
    family = family_named(name)
    assert family.name == name
    for device in ("cuda", "cpu"):
        if device == "cpu" or name in ("models", "training"):  # elsewhere rows hold windows on their device
            names = [row.name for row in family.rows(device)]
            assert len(set(names)) == len(names) > 0 or (name, device) == ("training", "cpu")
    if name != "training":
        assert run("bench", name, "--device", "cpu", "--list") == 0
        assert {line[:4] for line in capsys.readouterr().out.splitlines()} == {"cpu "}


def test_rows_are_chosen_by_what_they_are(capsys):
    assert run("bench", "models", "--device", "cpu", "--models", "replk", "--batches", "1", "--list") == 0
    assert capsys.readouterr().out == "cpu   replk batch 1 NCHW eager\ncpu   replk batch 1 NHWC eager\n"
    assert run("bench", "models", "--device", "cpu", "--ways", "compile", "--rows", "replk*64*NHWC", "--list") == 0
    assert capsys.readouterr().out == "cpu   replk batch 64 NHWC compile\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["filter2d", "--device", "cpu", "--rounds", "4"], "--rounds must be at least 5, got 4"),
        (["training", "--device", "cpu"], "training has no rows for cpu: it needs a GPU"),
        (
            ["models", "--device", "cpu", "--models", "nothing"],
            "no row is called for by these options; torch-conv bench models --list prints the names",
        ),
    ],
)
def test_refusals(arguments, sentence, capsys):
    assert refused(capsys, "bench", *arguments) == f"torch-conv bench: {sentence}"
