"""Pieces of the page: tables, bars, numbers. `text` escapes all values from files."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch_conv.bench.formatting import percent, ratio

STYLE = """\
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 86rem; padding: 1rem; font: 16px/1.45 system-ui, sans-serif; color: #111;
  background: #fff; }
h1 { font-size: 1.7rem; margin: .5rem 0; } h2 { font-size: 1.3rem; margin: 2.2rem 0 .6rem;
  border-bottom: 1px solid #111; } h3 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
p, ul { margin: .5rem 0; max-width: 46rem; overflow-wrap: anywhere; } p.note { font-size: .88rem; color: #333; }
nav ul { columns: 18rem; padding-left: 1.2rem; font-size: .92rem; max-width: none; } a { color: inherit; }
.box { overflow-x: auto; margin: .6rem 0; } .box:focus { outline: 2px solid #111; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { padding: .16rem .55rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #ccc; }
th { border-bottom: 1px solid #111; vertical-align: bottom; } .l { text-align: left; }
td.loss { font-weight: 700; } td svg { vertical-align: middle; margin-right: .4rem; }
figure { margin: .8rem 0; } figure svg { display: block; width: 100%; height: auto; }
figure text { font-family: "DejaVu Sans", Verdana, sans-serif; }
figure svg * { stroke-linejoin: round; stroke-linecap: butt; }
figcaption { font-size: .88rem; color: #333; max-width: 46rem; margin-top: .3rem; }
.wide svg { min-width: 36rem; }
@media screen and (max-width: 40rem) { td.l:not(:has(svg)) { white-space: normal; min-width: 8.5rem; } }
@media print { body { max-width: none; padding: 0; font-size: 10pt; } .box { overflow: visible; }
  table { font-size: 7pt; }
  th, td { padding: .1rem .3rem; } .wide svg { min-width: 0; } tr, figure { break-inside: avoid; }
  thead { display: table-header-group; } h2, h3 { break-after: avoid; } nav { display: none; } }
"""
BAR = 64  # pixels of 100 %


class Markup(str):
    """Text that is already markup."""


@dataclass(frozen=True)
class Cell:
    content: Any
    left: bool = False
    loss: bool = False


def text(value: Any) -> str:
    """Markup of any value, escaped unless it is markup."""
    return value if isinstance(value, Markup) else html.escape(str(value))


def table(headings: Sequence[Any], lines: Iterable[Sequence[Any]], left: int = 1) -> str:
    """A table in a box of its own that scrolls on a narrow screen; the first `left` columns are texts."""
    head = "".join(cell(name, i < left, "th") for i, name in enumerate(headings))
    body = "".join(f"<tr>{''.join(cell(each, i < left) for i, each in enumerate(line))}</tr>\n" for line in lines)
    return f"<div class=box tabindex=0><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n"


def cell(value: Any, left: bool, tag: str = "td") -> str:
    value = value if isinstance(value, Cell) else Cell(value)
    names = ["l"] * (left or value.left) + ["loss"] * value.loss
    mark = f' class="{" ".join(names)}"' if names else ""
    return f"<{tag}{mark}>{'' if value.content is None else text(value.content)}</{tag}>"


def paragraph(content: str, note: bool = False) -> str:
    return f"<p{' class=note' * note}>{content}</p>\n"


def bar(share: float) -> Markup:
    """A share of the copy's speed: a filled bar within the outline of 100 %, and the number."""
    long = BAR * min(share, 1.25)
    drawn = (
        f'<svg width={BAR + 18} height=11 aria-hidden=true><path d="M.5 .5H{BAR}.5V10.5H.5Z" fill=none stroke=#777 />'
        f'<path d="M0 2.5H{long:.1f}V8.5H0Z" fill=#333 /></svg>'
    )
    return Markup(drawn + percent(share))


def times(value: float | None) -> Cell:
    """Ours against the best rival; a loss is bold and has a mark, as there are no colours."""
    loss = value is not None and value < 1
    return Cell("▼ " * loss + ratio(value, 2), loss=loss)
