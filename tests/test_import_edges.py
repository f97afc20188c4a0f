"""Which folders of torch_conv may import which: programs stand on benchmarks, benchmarks on the library."""

import ast
from collections.abc import Iterator

import pytest
from conftest import ROOT

PACKAGE = ROOT / "torch_conv"
START = "torch_conv_cli"  # the module beside the package, which starts the command line
LIBRARY = {"dispatch", "functional", "nn", "reference", "kernels", "split"}
# A row for each folder and file, from the bottom up. `sharding` holds the parts of the class SplitTensor of `split`.
ALLOWED = {
    "dispatch": set(),
    "reference": {"dispatch"},
    "kernels": {"dispatch"},
    "sharding": {"dispatch", "split"},
    "split": {"dispatch", "sharding"},
    "functional": {"dispatch", "kernels", "sharding", "split"},
    "autograd": {"dispatch", "functional", "sharding"},
    "fakes": {"dispatch", "functional"},
    "nn": {"dispatch", "functional"},
    "distributed": {"dispatch", "functional", "sharding"},
    "compat": {"dispatch", "functional"},
    "bench": LIBRARY,
    "cli": {"bench", START, *LIBRARY},
}
PROGRAMS = {"cli", "bench", START}
ROOTS = {"__init__", "__main__"}  # import every folder


def imported(source: str) -> Iterator[str]:
    """The folders and files of torch_conv that a module imports, and START."""
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
            if root == START:
                yield root
            if root == "torch_conv" and rest:
                yield rest.partition(".")[0]


def edges() -> Iterator[tuple[str, str, str]]:
    """(folder, file, folder or file that it imports), where a file of the package itself counts as a folder."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        for name in imported(path.read_text()):
            yield parts[0].removesuffix(".py"), path.relative_to(PACKAGE).as_posix(), name


def test_every_folder_has_a_row_above_its_imports():
    assert {folder for folder, _, _ in edges()} - ROOTS == set(ALLOWED)
    below = {"split", START}
    for folder, allowed in ALLOWED.items():
        assert allowed <= below
        below.add(folder)


@pytest.mark.parametrize("folder", ALLOWED)
def test_a_folder_imports_none_above_it(folder):
    found = {(file, name) for of, file, name in edges() if of == folder}
    everywhere = {folder, "typing", "__version__"}  # `typing` imports nothing of the package
    foreign = {edge for edge in found if edge[1] not in ALLOWED[folder] | everywhere}
    assert found and not foreign


def test_the_start_of_the_command_line_has_its_names_alone():
    assert START not in imported((PACKAGE / "cli" / "__init__.py").read_text())


def test_the_library_imports_no_program():
    assert {file for folder, file, name in edges() if folder not in PROGRAMS and name in PROGRAMS} == {"__main__.py"}
