"""The table of csrc/dispatch/conv/handover_table.h beside the measurements that chose it.

python benchmarks/handover_table.py     # for results/handover-*.json: what each row should say, and where it is wrong
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from handover_cases import Case

from torch_conv.dispatch.query import answer_text
from torch_conv.functional._router import decide

RESULTS = Path(__file__).resolve().parent / "results"
REASONS = answer_text(torch.ops.torch_conv._handover_reasons()).splitlines()  # of the rows
OURS = -1
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}


def row_of(case: Case, device: str) -> int:
    """The row of the table that hands the case to torch on 'cuda' or 'cpu', or OURS."""
    last = case.layout in ("NHWC", "NLC", "NDHWC") and case.shape[1] > 1
    strides = [2] * len(case.shape)
    strides[1 if last else -1] = 1
    weight = (case.out, case.shape[1] // case.groups, *case.window)
    given = case.shape, strides, weight, [case.stride] * case.axes, [0] * case.axes, [case.dilation] * case.axes
    return decide(device, DTYPES[case.dtype], *given, case.groups, case.mode, 0, False, False)[1]


def measured(path: Path) -> Iterator[tuple[Case, str, float]]:
    """The cases of a file of results, the device, and torch's best time over ours."""
    document = json.loads(path.read_text())
    device = "cuda" if document["metadata"]["gpu"] else "cpu"
    for row in document["rows"]:
        kind, layout, dtype, shape, *rest = row["case"]
        best = min(row["torch_us"], row["tuned_us"] or row["torch_us"])
        yield Case(kind, layout, dtype, tuple(shape), *rest), device, best / row["ours_us"]


def said(row: int) -> tuple[float, ...]:
    """The least, the most and the median of torch's time over ours, as the table has them."""
    found = re.findall("takes ([0-9.]+) to ([0-9.]+) of our kernels' time, mostly ([0-9.]+)", REASONS[row])
    return tuple(map(float, found[0]))


def spread(ratios: list[float]) -> tuple[float, ...]:
    """The same of these."""
    return tuple(round(ratio, 2) for ratio in (min(ratios), max(ratios), sorted(ratios)[len(ratios) // 2]))


def by_row() -> dict[int, list[tuple[float, str]]]:
    """The measured ratios, with the cases' names, by the row that serves each, or OURS."""
    ratios: dict[int, list[tuple[float, str]]] = {OURS: []}
    for path in sorted(RESULTS.glob("handover-*.json")):
        for case, device, ratio in measured(path):
            ratios.setdefault(row_of(case, device), []).append((ratio, f"{device} {case.name}"))
    return ratios


def main() -> int:
    ratios = by_row()
    ours = ratios.pop(OURS)
    count = 0
    for row in range(len(REASONS)):
        found = [ratio for ratio, _ in ratios.get(row, [])]
        right = bool(found) and spread(found) == said(row)
        count += not right
        should = "" if right else f"WRONG, {spread(found) if found else 'not measured'}: "
        print(f"{row:3} {len(found):4} cases: {should}{REASONS[row]}")
    handed = sorted((pair for pairs in ratios.values() for pair in pairs), reverse=True)
    for title, pairs in (("ours, where torch is ahead", sorted(ours)), ("torch's, where ours are ahead", handed)):
        wrong = [(ratio, name) for ratio, name in pairs if (ratio < 1) == (pairs is not handed) and ratio != 1]
        print(f"\n{title}: {len(wrong)} of {len(pairs)}")
        print("\n".join(f"{ratio:8.2f}  {name}" for ratio, name in wrong[:40]))
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
