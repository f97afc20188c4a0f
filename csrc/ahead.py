"""Kernels that are built ahead: reads the list ahead.txt, and makes the table of sources that travels in the module.

`python csrc/ahead.py MODULE FOLDER CAPABILITY...` compiles the list with NVRTC, by a built module, into FOLDER; setup.py
runs it. What is there already and was made of the same sources stays.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
_INCLUDE = re.compile(r'^#include [<"]([^">]+)[">]', re.MULTILINE)
_CHOICE = re.compile(r"(?<!\w)\{([^{}]*)\}")  # behind a name, braces hold a struct's fields


def expand(line: str) -> list[str]:
    """`f<{float,double}, 3>` is two lines."""
    pieces = _CHOICE.split(line)
    choices = [piece.split(",") if i % 2 else [piece] for i, piece in enumerate(pieces)]
    return ["".join(choice) for choice in itertools.product(*choices)]


def kernels() -> list[str]:
    """The list, a kernel a line: its file, a space, its name."""
    lines = [line.split("#")[0].split(None, 1) for line in (HERE / "ahead.txt").read_text().splitlines()]
    found = [f"{file} {name.strip()}" for file, names in filter(None, lines) for name in expand(names)]
    return sorted(set(found))


def _path(name: str) -> Path:
    path = HERE / name
    return path if path.exists() else HERE / "nvrtc" / name


def device_sources() -> dict[str, str]:
    """Every file that a kernel includes, by the name that it is included by."""
    names = sorted(str(path.relative_to(HERE)) for path in HERE.rglob("*.cuh"))
    texts: dict[str, str] = {}
    while names:
        name = names.pop()
        if name not in texts:
            texts[name] = _path(name).read_text()
            names += _INCLUDE.findall(texts[name])
    return dict(sorted(texts.items()))


def write_sources(target: Path) -> None:
    """The table of sources as C++; left alone where it says the same already, so that nothing is compiled again."""
    rows = []
    for name, text in device_sources().items():
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        # A string literal may hold 64 KiB; the files are far smaller.
        rows.append(f'    {{"{name}", 0x{digest}u, R"__source__({text})__source__"}},')
    code = (
        '// Written by ahead.py.\n#include "runtime/sources.h"\n\nnamespace torch_conv::cuda {\n\n'
        "const SourceFile kSourceFiles[] = {\n" + "\n".join(rows) + "\n};\n"
        "const int kSourceFileCount = int(sizeof(kSourceFiles) / sizeof(kSourceFiles[0]));\n\n"
        "}  // namespace torch_conv::cuda\n"
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists() or target.read_text() != code:
        target.write_text(code)


def _compile(module: str, folder: str, capability: int, lines: list[str]) -> list[str]:
    import torch

    torch.ops.load_library(module)
    compiler = torch.ops.torch_conv._store_report()[0]
    if compiler.startswith("compiler: none"):
        print(f"torch_conv: {compiler}, no kernels are built ahead", file=sys.stderr)
        return []
    return torch.ops.torch_conv._build_kernels(folder, capability, lines)


def build(module: Path, folder: Path, capabilities: list[int], jobs: int) -> None:
    """Compiles the list for each capability (90 is 9.0), `jobs` processes side by side, and removes what is not of it."""
    lines = kernels()
    for other in set(folder.glob("sm_*")) - {folder / f"sm_{capability}" for capability in capabilities}:
        shutil.rmtree(other)
    for capability in capabilities:
        command = [sys.executable, __file__, "--part", str(module), str(folder), str(capability)]
        parts = [subprocess.Popen([*command, str(i), str(jobs)], stdout=subprocess.PIPE, text=True) for i in range(jobs)]
        files = [line for part in parts for line in part.communicate()[0].splitlines()]
        if any(part.returncode for part in parts):
            raise SystemExit(f"torch_conv: kernels for compute capability {capability / 10} were not built")
        place = folder / f"sm_{capability}"
        for path in place.glob("*"):
            if str(path) not in files:
                path.unlink()
        size = sum(path.stat().st_size for path in place.glob("*"))
        print(f"torch_conv: {len(files)} kernels for sm_{capability}, {size / 1e6:.1f} MB")


def main() -> None:
    if sys.argv[1] == "--part":
        module, folder, capability, first, step = sys.argv[2:]
        print("\n".join(_compile(module, folder, int(capability), kernels()[int(first) :: int(step)])))
    else:
        build(Path(sys.argv[1]), Path(sys.argv[2]), [int(c) for c in sys.argv[3:]], int(os.environ.get("MAX_JOBS", "2")))


if __name__ == "__main__":
    main()
