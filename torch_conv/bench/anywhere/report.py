"""What a run says in the end: the losses first, then shares of the floor, the worst calls and the first calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from torch_conv.bench.anywhere.call import DTYPE_NAMES
from torch_conv.bench.anywhere.draws import CALLS, ORDERED, Cell
from torch_conv.bench.documents import OURS
from torch_conv.bench.formatting import counted, duration
from torch_conv.bench.load import within_noise
from torch_conv.bench.rows import time_us, us

if TYPE_CHECKING:
    from torch_conv.bench.anywhere.running import Outcome

Row = dict[str, Any]
WORST = 40
MOST_NAMED = 40  # cells without calls; of more the table alone says which
RESIDENT = "in cache"
HEADING = "share of the floor, time and floor, what binds, the best rival's time over ours, the call"


def opening(calls: int, seed: int, rates: dict[str, Any]) -> str:
    """What is measured, and how fast the machine computes."""
    known = [f"{name.replace('_', ' ')} {rate['per_second'] / 1e9:.0f} G/s" for name, rate in rates.items() if rate]
    return f"{counted(calls, 'call')} of seed {seed}; multiply-adds: {', '.join(known)}"


def line(row: Row) -> str:
    """A call in one line: the share of its floor, its time, the best rival, and its name."""
    if not row["correct"]:
        return f"WRONG    error {row['error']:.1e}  {row['name']}"
    rival = f"{row['speedup']:7.2f} x {row['best_rival']}" if row["best_rival"] else f"{'no rival':>9}"
    parts = [share_of(row), f"{duration(us(row, OURS)):>9} of {duration(row['floor_us']):>9} {row['floor_of']:10}"]
    return "  ".join([*parts, f"{rival:24}", named(row)])


def named(row: Row) -> str:
    """The call's name, with a mark if a cache holds what it works on."""
    return str(row["name"]) + f" ({RESIDENT})" * row["resident"]


def share_of(row: Row) -> str:
    return f"{100 * row['share']:5.1f} %"


def lost(row: Row) -> bool:
    """Whether the best rival is faster, beyond noise."""
    rival = row["best_rival"]
    return bool(rival) and row["speedup"] < 1 and not within_noise(time_us(row, OURS), time_us(row, rival))


def summary(outcome: Outcome, cells: Sequence[Cell]) -> list[str]:
    """The lines below the calls."""
    rows = outcome.timed
    return [
        *wrong(outcome),
        *losses(rows),
        *distribution(rows),
        *medians(rows, cells),
        *worst(rows),
        *(first_calls(rows, outcome.first) if outcome.first else []),
        "",
        *closing(outcome),
    ]


def wrong(outcome: Outcome) -> list[str]:
    found = [f"  {line(row)}" for row in outcome.rows if not row["correct"]]
    found += [f"  FAILED   {name}: {why}" for name, why in outcome.failed.items()]
    return ["", f"Wrong or failed: {counted(len(found), 'call')}", *found] if found else []


def losses(rows: Sequence[Row]) -> list[str]:
    met = [row for row in rows if row["best_rival"]]
    behind = sorted(filter(lost, met), key=lambda row: row["speedup"])
    found = ["", f"Lost to a rival: {len(behind)} of {counted(len(met), 'call')} that a rival can do"]
    for row in behind:
        rival = f"{row['speedup']:.2f} x {row['best_rival']}"
        found.append(f"  {rival:28} {duration(us(row, OURS)):>9}  {share_of(row)} of floor  {row['name']}")
    return found


# ---- shares of the floor ---------------------------------------------------------------------------------------------


def distribution(rows: Sequence[Row]) -> list[str]:
    """Of all calls, of those that a cache holds and of the others, by what binds."""
    kinds = {
        "all": rows,
        "beyond the cache": [row for row in rows if not row["resident"]],
        RESIDENT: [row for row in rows if row["resident"]],
        "bound by bytes": [row for row in rows if row["floor_of"] == "bytes"],
        "bound by arithmetic": [row for row in rows if row["floor_of"] == "arithmetic"],
    }
    found = ["", "Share of the floor, %          calls    p5   p25  median   p75"]
    for kind, some in kinds.items():
        if some:
            low, first, middle, third = shares(some)
            found.append(f"  {kind:27} {len(some):6} {low:5.0f} {first:5.0f} {middle:7.0f} {third:5.0f}")
    return found


def shares(rows: Sequence[Row]) -> tuple[float, float, float, float]:
    """p5, p25, median and p75, in percent."""
    values = [100 * row["share"] for row in rows]
    return percentile(values, 5), percentile(values, 25), median(values), percentile(values, 75)


def percentile(values: Sequence[float], percent: int) -> float:
    if len(values) < 2:
        return values[0]
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def by_cell(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        found[row["function"], row["dtype"]].append(row)
    return found


def medians(rows: Sequence[Row], cells: Sequence[Cell]) -> list[str]:
    """A table of functions and dtypes; the cells without calls are named below."""
    names = {dtype: str(dtype).removeprefix("torch.") for dtype in ORDERED}
    found = by_cell(rows)
    functions = list(dict.fromkeys(function for function, _ in cells))
    width = max(map(len, functions), default=0)
    title = "Median share of the floor, %"
    lines = ["", f"{title:{width + 2}}" + "".join(f"{DTYPE_NAMES[dtype]:>6}" for dtype in ORDERED)]
    for function in functions:
        values = []
        for dtype in ORDERED:
            some = [100 * row["share"] for row in found.get((function, names[dtype]), [])]
            none = "." if (function, dtype) in cells else "-"
            values.append(f"{median(some):6.0f}" if some else f"{none:>6}")
        lines.append(f"  {function:{width}}" + "".join(values))
    least = min((len(some) for some in found.values()), default=0)
    lines.append(
        f"  {counted(len(rows), 'call')} in {len(found)} of {counted(len(cells), 'cell')}, at least {least} in each"
    )
    lines[-1] += f" (fewer than {CALLS} say little)" * (least < CALLS)
    empty = [f"{function} {DTYPE_NAMES[dtype]}" for function, dtype in cells if (function, names[dtype]) not in found]
    if empty:
        shown = ", ".join(empty) if len(empty) <= MOST_NAMED else f"{len(empty)} cells"
        lines.append(f"  without calls (.): {shown}; that do not exist: -")
    return lines


def worst(rows: Sequence[Row]) -> list[str]:
    """The calls that are farthest from their floors, with the algorithms that serve them."""
    some = sorted(rows, key=lambda row: row["share"])[:WORST]
    found = ["", f"The worst {len(some)}"]
    for row in some:
        found.append(f"  {share_of(row)}  {duration(us(row, OURS)):>9}  {named(row)}")
        found.append(f"{'':11}{'; '.join(row['plan'])[:140]}")
    return found


# ---- first calls -----------------------------------------------------------------------------------------------------


def first_calls(rows: Sequence[Row], facts: dict[str, Any]) -> list[str]:
    values = [row["first_ms"] for row in rows if row["first_ms"] is not None]
    found = ["", "First calls, beyond a steady one, with an empty kernel cache"]
    if not values:
        return [*found, "  none was measured"]
    each = of_first_calls(values)
    found.append("  " + ", ".join(f"{name} {duration(1e3 * value)}" for name, value in each.items()))
    found.append(
        f"  {counted(facts['calls'], 'call')} in {facts['all_seconds']:.1f} s, {facts['kernels_compiled']} kernels "
        f"compiled, all calls at steady speed after {facts['steady_after_seconds']:.1f} s; "
        f"before them the CUDA context took {facts['context_seconds']:.1f} s, "
        f"the library's first call of all {facts['library_seconds']:.1f} s"
    )
    slow = sorted((row for row in rows if row["first_ms"] is not None), key=lambda row: -row["first_ms"])[:5]
    found += [f"  {duration(1e3 * row['first_ms']):>9}  {row['name']}" for row in slow]
    return found


def of_first_calls(milliseconds: Sequence[float]) -> dict[str, float]:
    some = {f"p{n}": percentile(milliseconds, n) for n in (90, 99)}
    return {"median": median(milliseconds), **some, "worst": max(milliseconds)}


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """The figures of a file of results, for comparisons of runs."""
    found: dict[str, Any] = {"calls": len(rows), "lost": sum(map(lost, rows))}
    if rows:
        found["share_percent"] = dict(zip(("p5", "p25", "median", "p75"), shares(rows), strict=True))
    if first := [row["first_ms"] for row in rows if row["first_ms"] is not None]:
        found["first_ms"] = of_first_calls(first)
    return found


def closing(outcome: Outcome) -> list[str]:
    found = [f"{counted(len(outcome.rows), 'call')} in {outcome.seconds:.0f} s"]
    if outcome.not_reached:
        found[0] += f"; {outcome.not_reached} more were not reached in time"
    if outcome.absent:
        found.append(f"rivals that are not installed: {', '.join(sorted(outcome.absent))}")
    return [*found, outcome.busy] if outcome.busy else found
