"""What the site needs beyond mkdocs.yml: pages from outside docs/, and signatures as Python sees them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
# Files of the repository that are pages of the site, each under a name of its own.
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks/method.md",
    "examples/cpp/README.md": "cpp_example.md",
}
# Their tables want the place of the table of contents.
WIDE = (*(f"benchmarks/{name}.md" for name in ("large_windows", "blur", "models", "fused")), "textbook.md")
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s#]*)(#[^)\s]*)?\)")

ALIASES = dict.fromkeys(
    re.findall(r"^(\w+) = Literal", (ROOT / "torch_conv/typing.py").read_text(), re.MULTILINE), "str"
)
ALIASES |= {f"_size_{n}_t": f"int | ({', '.join(['int'] * n)}{',' * (n == 1)}) | str" for n in (1, 2, 3)}
ALIASES |= {"Numbers": "float | (float, float)", "Numbers3": "float | (float, float, float)"}
ALIASES |= {"Ints": "int | Sequence[int]", "Floats": "float | Sequence[float]", "Array": "ndarray"}
ALIASES |= {"Mode": "str", "Modes": "str | Sequence[str]", "Output": "dtype | Tensor | ndarray | None"}
ALIASES |= {"ArrayImage": "Tensor | ndarray", "PilImage": "Tensor | PIL.Image"}


def on_files(files: Any, config: Any) -> Any:
    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links are written as they stand in the repository; those to files that are no page become their text."""
    place = page.file.src_uri
    if place in WIDE:
        page.meta["hide"] = ["toc"]
    source = next((name for name, target in OUTSIDE.items() if target == place), f"docs/{place}")

    def relinked(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        if not target or "://" in target:
            return match[0]
        name = os.path.normpath(os.path.join(os.path.dirname(source), target))
        if name in OUTSIDE:
            name = f"docs/{OUTSIDE[name]}"
        if not name.startswith("docs/"):
            return text.removeprefix("!")[1:-1]
        return f"{text}({os.path.relpath(name, os.path.dirname(f'docs/{place}'))}{anchor})"

    return LINK.sub(relinked, markdown)


class Signatures(griffe.Extension):
    """Functions and docstrings as a reader of Python expects them.

    TorchScript's types become today's, and aliases what they stand for. "Example:", with doctests, is a section that
    Griffe calls "Examples:".
    """

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = re.sub(r"^( *)Example:$", r"\1Examples:", obj.docstring.value, flags=re.MULTILINE)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        for p in func.parameters:
            if p.annotation is not None:
                p.annotation = plain(str(p.annotation))
        if func.returns is not None and plain(str(func.returns)) != str(func.returns):
            func.returns = plain(str(func.returns))


def plain(annotation: str) -> str:
    """`Optional[Union[A, tuple[B, B]]]` is `A | (B, B) | None`, `BroadcastingList2[int]` is `int | (int, int)`."""
    found = re.fullmatch(r"(Optional|Union|[Tt]uple|BroadcastingList([123]))\[(.*)\]", annotation, re.DOTALL)
    if not found:
        return re.sub(r"\w+", lambda name: ALIASES.get(name[0], name[0]), annotation)
    parts = [plain(part.strip()) for part in re.findall(r"(?:[^,\[\]]|\[(?:[^\[\]]|\[[^\]]*\])*\])+", found[3])]
    if found[1] == "Optional":
        return f"{parts[0]} | None"
    if found[1] == "Union":
        return " | ".join(parts)
    if found[1].lower() == "tuple":
        return annotation if "..." in parts else f"({', '.join(parts)})"
    return f"{parts[0]} | ({', '.join(parts * int(found[2]))}{',' * (found[2] == '1')})"
