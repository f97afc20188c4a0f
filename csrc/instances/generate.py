"""Writes the explicit instantiations of the rooms' compiled windows: one element type a file, built in parallel.

Run it after changing the table below; `--check` fails when a file in this folder differs from what would be written.
"""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).parent

# room -> (header, function with its arguments, element types)
ROOMS = {
    "direct2d": (
        "direct2d/launch.cuh",
        "void launch_windows<{type}>(const Direct&, const Plan&, cudaStream_t)",
        ("f32", "f16", "bf16", "u8"),
    ),
    "direct3d": (
        "direct3d/launch.cuh",
        "void launch<{type}>(const Direct&, const Plan&, cudaStream_t)",
        ("f32", "f16", "bf16", "f64", "u8", "i16", "u16"),
    ),
    "fused": (
        "fused/launch.cuh",
        "void launch<{type}>(const Fused&, const Plan&, cudaStream_t)",
        ("f32", "f16", "bf16", "u8"),
    ),
}
TYPES = {
    "f32": "float",
    "f16": "half_t",
    "bf16": "bhalf_t",
    "f64": "double",
    "u8": "uint8_t",
    "i16": "int16_t",
    "u16": "uint16_t",
}

TEMPLATE = """\
// Written by generate.py; do not edit.
#include "{header}"

namespace torch_conv::{room} {{
template {function};
}}  // namespace torch_conv::{room}
"""


def files() -> dict[str, str]:
    return {
        f"{room}_{name}.cu": TEMPLATE.format(header=header, room=room, function=function.format(type=TYPES[name]))
        for room, (header, function, names) in ROOMS.items()
        for name in names
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare, exit 1 on a difference")
    check = parser.parse_args().check
    wanted = files()
    stale = {path.name for path in HERE.glob("*.cu")} - set(wanted)
    changed = {
        name for name, text in wanted.items() if not (HERE / name).exists() or (HERE / name).read_text() != text
    }
    if check:
        for name in sorted(stale | changed):
            print(f"csrc/instances/{name} is not what generate.py writes", file=sys.stderr)
        return 1 if stale or changed else 0
    for name in stale:
        (HERE / name).unlink()
    for name in changed:
        (HERE / name).write_text(wanted[name])
    return 0


if __name__ == "__main__":
    sys.exit(main())
