"""Code and documents keep to the words of `vocabulary.py`, and name files that exist."""

from pathlib import Path

import mutants
import pytest
import vocabulary


def test_no_old_word_and_no_stale_name_is_left():
    """Outside `vocabulary.PENDING`."""
    if not (Path(vocabulary.ROOT) / ".git").exists():
        pytest.skip("not in a clone")
    assert vocabulary.findings() == []


@pytest.mark.parametrize(
    ("path", "text", "renamed"),
    [
        ("csrc/kernels/a.cuh", "march(kBeside);  // no march", "streaming(kPeers);  // no march"),
        (
            "csrc/kernels/a.cuh",
            "// `march`, march/plan.h, MarchShape",
            "// `streaming`, streaming/plan.h, StreamingShape",
        ),
        ("csrc/api/a.cpp", "// The hall has room for rooms.", "// The operator layer has room for kernel families."),
        ("csrc/api/a.cpp", "Place place(call); p.place.pad_x", "Target target(call); p.place.pad_x"),
        ("tests/a.py", 'pinned("products")  # products of numbers', 'pinned("mma")  # products of numbers'),
    ],
)
def test_names_are_renamed_in_code_and_words_in_prose(path, text, renamed):
    assert vocabulary.applied(path, text) == renamed


def test_findings_name_the_line():
    assert {line for line, _ in vocabulary.old_words("csrc/api/a.cpp", "int a;\n// the hall\n")} == {2}
    assert list(vocabulary.stale_names("csrc/a.h", "// see b.h and c.h", {"b.h"})) == [(1, "there is no file 'c.h'")]
    assert list(vocabulary.stale_names("csrc/a.h", "// see b.*", {"b.h"})) == []


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_place_and_names_tests(mutant):
    assert (mutants.ROOT / mutant.file).read_text().count(mutant.old) == 1
    assert all(mutants.files_of(pattern) for pattern in mutant.tests.split())
