"""Which folders of torch_conv may import which: programs stand on benchmarks, benchmarks on the library."""

import ast
from collections.abc import Iterator

import pytest
from conftest import ROOT

PACKAGE = ROOT / "torch_conv"
LIBRARY = {"dispatch", "functional", "nn", "reference", "kernels", "split"}
# The names `torch_conv.X` count as the folder or file X.
ALLOWED = {
    "cli": {"bench", *LIBRARY},
    "bench": LIBRARY,
    "nn": {"dispatch", "functional"},
    "compat": {"dispatch", "functional", "fakes", "sharding"},
    "reference": {"dispatch"},
}
PROGRAMS = {"cli", "bench"}


def imported(source: str) -> Iterator[str]:
    """The folders and files of torch_conv that a module imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "torch_conv":
            names = [f"torch_conv.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for name in names:
            root, _, rest = name.partition(".")
            if root == "torch_conv" and rest:
                yield rest.partition(".")[0]


def edges() -> Iterator[tuple[str, str, str]]:
    """(folder, file, folder or file that it imports); files of the package itself have the folder ''."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        for name in imported(path.read_text()):
            yield parts[0] if len(parts) > 1 else "", path.relative_to(PACKAGE).as_posix(), name


@pytest.mark.parametrize("folder", ALLOWED)
def test_a_folder_imports_none_above_it(folder):
    found = {(file, name) for of, file, name in edges() if of == folder}
    foreign = {edge for edge in found if edge[1] not in ALLOWED[folder] | {folder, "__version__"}}
    assert found and not foreign


def test_the_library_imports_no_program():
    assert {file for folder, file, name in edges() if folder not in PROGRAMS and name in PROGRAMS} == {"__main__.py"}
