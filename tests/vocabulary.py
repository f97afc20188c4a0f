"""Words that the tree no longer uses, and the words that it uses instead.

    python tests/vocabulary.py [PATH...]          prints FILE:LINE of old words and of names of files that do not exist
    python tests/vocabulary.py --apply [PATH...]  renames identifiers and files as the table says; prose is left to you

`make lint` and `tests/test_vocabulary.py` run the first form. Public names and documented environment variables keep
their words.
"""

import fnmatch
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

# Neither linted nor renamed: data, generated files, this table and the tests that need old words.
SKIPPED = (
    "benchmarks/results/",
    "docs/report.html",
    "tests/plan_sweep.txt.xz",
    "tests/vocabulary.py",
    "tests/test_vocabulary.py",
    "tests/test_benchmarks.py",
    "LICENSE",
)
# Begins of paths that still hold old words. A path goes once `--apply` and a reader have been there.
PENDING: tuple[str, ...] = ()


ROOM = r"\b(has|have|had|leaves?|leave|ma[dk]es?|making|no|little|is) room\b|\b[Rr]oom (for|in)\b|room ="
PROSE_OF_SHARDS = (
    r"benchmarks/|docs/|examples/|tests/|csrc/(core|runtime|sharding|tensors|kernels/separable3d/tuning)|torch_conv/"
)
NATIVE = r"csrc/|tests/on_host/"


Spans = list[tuple[int, int]]


class Rule(NamedTuple):
    old: str  # a regular expression
    new: str | Callable[[re.Match[str]], str]  # for prose: what to write instead
    where: str = ""  # a regular expression of the paths that the rule is for
    allow: str = ""  # a line that matches this may stay


# Identifiers, wherever they stand.
NAMES = [
    # Kernels and variants as `explain` prints them.
    Rule(r"(?<![A-Za-z])ring_words(?![A-Za-z])", "ring_unaligned"),
    Rule(r"(?<![A-Za-z])(march|streaming)_words(?![A-Za-z])", "streaming_unaligned"),
    Rule(r"\b(box|direct3d|fused|fused3d|separable3d|weight_gradient)_march\b", r"\1_streaming"),
    Rule(r"\bmarch_tma\b", "streaming_tma"),
    Rule(r"/march\b", "/streaming"),
    Rule(r"\b(direct2d|separable)_products\b", r"\1_mma"),
    Rule(r"/products\b", "/mma"),
    # Kernel families and their entry points.
    Rule(r"\b(k?)Doors\b", r"\1EntryPoints"),
    Rule(r"\broom\.h\b", "entry_points.h"),
    Rule(r"\bcalls_of_every_room\b", "calls_of_every_family"),
    # Streaming along an axis.
    Rule(r"\b(MARCH|RING)_WORDS\b", lambda m: {"MARCH": "STREAMING", "RING": "RING"}[m[1]] + "_UNALIGNED"),
    Rule(r"\bMARCH(_TMA)?\b", r"STREAMING\1"),
    Rule(r"\b(k?)March(?=[A-Z])", r"\1Streaming"),
    Rule(r"\bkMarches\b", "kFitsStreaming"),
    Rule(r"(?<=[a-z0-9]_)march(?![a-z])|(?<![A-Za-z_])march(?=_[a-z])", "streaming"),
    Rule(r"\bmarch(?=(_plan)?\.(cuh|h|cpp)\b)", "streaming"),
    # Products on tensor cores are mma; those of numbers keep the word.
    Rule(r"\bPRODUCTS\b", "MMA"),
    Rule(r"\b(Large)?Product(Shape|Args|Lane)\b", r"\1Mma\2"),
    Rule(r"\bLargeProducts\b", "LargeMma"),
    Rule(r"\bkProducts?(Most)?\b", r"kMma\1"),
    Rule(
        r"\bproducts?_(refusal|is_slower|shared|pack|bulk|odd|across|at_once|bits|shape|parts|channels|args|min_blocks)\b",
        r"mma_\1",
    ),
    Rule(r"\b(configure|fill|launch|large)_products\b", r"\1_mma"),
    Rule(r"\bcheck_products\b", "check_mma", r"csrc/|tests/on_host/"),
    Rule(r"\badd_product\b", "mma_add"),
    Rule(r"\bTC_(SPARSE_)?PRODUCT\b", r"TC_\1MMA"),
    Rule(r"\bSums::products\b", "Sums::mma"),
    Rule(r"\bproducts(?=(_bits)?\.(h|cuh|cpp)\b)", "mma"),
    Rule(r"\b(separable|direct)_products(?=(_bytes)?\b)", r"\1_mma", r"csrc/|tests/"),
    # Interleaved channels, (H, W, C).
    Rule(r"\bphoto_channels\b", "hwc_channels"),
    Rule(r"\bphotos\.h\b", "hwc.h"),
    Rule(r"\bside_by_side\.cuh\b", "interleaved.cuh"),
    Rule(r"\bkMostSideBySide\b", "kMostInterleaved"),
    Rule(r"\bkPhotoKernels\b", "kHwcKernels"),
    Rule(r"\bof_photo\b", "of_hwc"),
    # Rows and windows of peer shards, which kernels read where they lie.
    Rule(r"\bkBeside\b", "kPeers"),
    Rule(r"\bbeside_of\b", "peers_of"),
    Rule(r"\blender(s?)\b", r"owner\1"),
    Rule(r"\bkMostBorrowed\b", "kMostReadFromPeer"),
    Rule(r"\bkLend\b", "kHaloLanes"),
    # Boundaries between shards.
    Rule(r"\b(kHas)?Seams\b", lambda m: f"{m[1] or ''}Boundaries"),
    Rule(r"\bseams\.h\b", "boundaries.h"),
    Rule(r"(?<=_)seams\b(?!_)", "boundaries", r"csrc/|torch_conv/|tests/"),
    Rule(r"\bseam_(of|d)\b", r"boundary_\1"),
    # The footprint of a call, the halo of a chain.
    Rule(r"\bAxisReach\b", "AxisFootprint"),
    Rule(r"\bPurpose::reach\b", "Purpose::footprint"),
    Rule(r"\b(only|call)_reach(_?)\b", r"\1_footprint\2"),
    Rule(r"\breach_of\b", "footprint_of"),
    Rule(r"(?<![A-Za-z])_reach(?=\.py| import)", "_footprint"),
    Rule(r"\bkReach\b", "kHalo"),
    # Subtiles, positions, partial sums.
    Rule(r"\bk(Most)?Lots\b", r"k\1Subtiles"),
    Rule(r"\bkLotBytes\b", "kSubtileBytes"),
    Rule(r"\bLotRows\b", "SubtileRows"),
    Rule(r"\blot_(bytes|of_quad|of_item)\b", r"subtile_\1"),
    Rule(r"\b(Tiles?|Lane|Depth|Out)Place\b", r"\1Position"),
    Rule(r"\bMarchPlace\b|\bStreamingPlace\b", "StreamingPosition"),
    Rule(r"\bSumPlaces\b", "SumPositions"),
    Rule(r"\b(march|streaming)_place\b", "streaming_position"),
    Rule(r"\bplace_in_group\b", "position_in_group"),
    Rule(r"\bkWays\b", "kPartials"),
    Rule(r"\b_check_way\b", "_check_algorithm"),
    # A word is 4 bytes in a register, a vector what one load moves, a string argument a name.
    Rule(r"\bWordOf\b", "VectorOf"),
    Rule(r"\b(volume_)?words_possible\b", lambda m: f"{m[1] or ''}vectors_possible"),
    Rule(r"\bWordColumns\b", "UnalignedColumns"),
    Rule(r"\bstrips/words\.cuh\b", "strips/unaligned.cuh"),
    Rule(r"(?<=_mma/)words\.cuh\b", "packed.cuh"),
    Rule(r"\bpacked_words\.cuh\b", "packed.cuh"),
    Rule(r"(?<=core/cuda/)words\.cuh\b", "packed.cuh"),
    Rule(r"\bOptionalWord\b", "OptionalString"),
    Rule(r"\b_check_word\b", "_check_name"),
    # Symmetric memory, handshakes and flags.
    Rule(r"\bMailbox\b", "SymmetricBuffer"),
    Rule(r"(?<![A-Za-z])_mailbox\b", "_symmetric_memory"),
    Rule(r"\btest_mailbox\b", "test_symmetric_memory"),
    Rule(r"\bsharded_mail\b", "sharded_host_memory"),
    Rule(r"\bmailbox_of\b", "buffer_of"),
    Rule(r"\bmailboxes\b", "buffers", r"torch_conv/|tests/"),
    Rule(r"\bLetters\b", "Puts"),
    Rule(r"\b_letters(_for)?\b", r"_puts\1"),
    Rule(r"\bby_mail\b", "by_symmetric_memory"),
    Rule(r"\bMeeting\b", "Handshake"),
    Rule(r"\bMeetingPoint\b", "Barrier"),
    Rule(r"(?<![A-Za-z])_meeting\b", "_handshake"),
    Rule(r"\bmeeting\.h\b", "handshake.h"),
    # Cached calls.
    Rule(r"\bShortcut\b", "CachedLaunches"),
    Rule(r"(?<![A-Za-z])_shortcut\b", "_cached_launches"),
    Rule(r"(?<![A-Za-z])_route\b", "_cached_call"),
    Rule(r"\bgains_in_float32\b", "float32_is_faster"),
    # Refusals.
    Rule(r"\b(pixels|voxels|elements) of a row do not lie side by side", r"\1 of a row are not contiguous"),
    Rule(r"\bchannels do not lie side by side", "channels are not innermost"),
    Rule(r"\bmarching (along|down)\b", r"streaming \1"),
    Rule(r"\bmarch(es)? (along|down|downwards|through)\b", lambda m: f"stream{'s' if m[1] else ''} {m[2]}"),
    Rule(r"\bchannels side by side\b", "interleaved channels"),
    Rule(r"\bphotos of (?=\w+ to four channels)", "HWC images of ", "csrc/"),
]

# Words that are old as identifiers and good English: in code, and in prose within backquotes and paths.
CODE = [
    Rule(r"\bdoors(_?)\b", r"entry_points\1", "csrc/"),
    Rule(r"\bRoom\b", "Buffer", "csrc/kernels/depthwise/cpu/"),
    Rule(r"\b(patch_)?room_\b", lambda m: f"{m[1] or ''}buffer_", "csrc/kernels/"),
    Rule(r"\bmarch\b", "streaming"),
    Rule(r"\bMarch\b", "StepRange", "csrc/kernels/weight_gradient/"),
    Rule(r"(?<=Variant::)products\b|(?<=namespace )products\b|(?<=2d::)products\b|(?<=\")products(?=\")", "mma"),
    Rule(r"(?<=\bs\.)products\(\)|\bproducts\(\)", "mmas()", "csrc/kernels/"),
    Rule(r"\bproducts\b(?=, tile,| };)", "mma", "csrc/(core/problem|kernels/direct2d/config).h"),
    Rule(r"\bproduct(?=<[A-Z]>\(|\(float)", "mma_into", "csrc/|tests/on_host/"),
    Rule(r"\bphoto\b", "hwc", "tests/on_host/"),
    Rule(r"\bPHOTOS\b", "HWC", "tests/on_host/"),
    Rule(r"\bBeside\b", "Peers", "csrc/|tests/on_host/"),
    Rule(r"\bbeside\b", "peers", "csrc/|tests/on_host/", r"\bbeside[^\"]*\""),
    Rule(r"\bborrow\b", "read_from_peer", "csrc/"),
    Rule(r"\bborrows\b", "reads_peers", "csrc/kernels/"),
    Rule(r"\bborrowed\b", "read_by_peer", "csrc/tensors/"),
    Rule(r"\blend\b", "halo_lanes", "csrc/kernels/fused/"),
    Rule(r"\blend\b", "reuses", "torch_conv/"),
    Rule(r"\bseam(s?)\b", lambda m: "boundaries" if m[1] else "boundary"),
    Rule(
        r"\b(Reach|reach)(_?)\b",
        lambda m: {"R": "Footprint", "r": "footprint"}[m[1][0]] + m[2],
        r"csrc/(sharding|tensors|dispatch/pipeline|api/(conv|filters)\.)|torch_conv/(fakes|sharding|distributed|autograd)",
        "not reach along",
    ),
    Rule(r"(?<=call\.)reach\b|(?<=call_\.)reach\b|(?<=question\.)reach\b", "footprint", "csrc/"),
    Rule(r"(?<=[.])reach\b", "footprint", "csrc/api/"),
    Rule(r"\bReach\b", "Footprint", "csrc/(api|dispatch)/"),
    Rule(r"\breach\b", "halo", "csrc/kernels/fused/|tests/on_host/chain"),
    Rule(r"\bReach\b", "Halo", "csrc/kernels/fused/"),
    Rule(r"\bLot\b", "Subtile", "csrc/kernels/box/"),
    Rule(r"\blot(s?)\b", r"subtile\1", "csrc/kernels/box/|tests/on_host/box"),
    Rule(r"\bPlace\b", "Target", "csrc/(api|dispatch|graph|sharding|tensors)/"),
    Rule(r"\bPlace\b", "Position", "csrc/(core|kernels)/"),
    Rule(r"\bPlace\b", "Margins", "torch_conv/autograd/"),
    Rule(r"\bPlace\b", "MeshView", "torch_conv/distributed/|tests/test_symmetric_memory"),
    Rule(r"\bplace_of\b", "mesh_view_of", "torch_conv/distributed/"),
    Rule(r"\broute\b", "cached", "torch_conv/distributed/_operators"),
    Rule(
        r"(?<![.\w])(?<!Placement )place(_?)\b(?!_)",
        r"target\1",
        "csrc/(api|dispatch|graph)/|csrc/sharding/launch_shards",
    ),
    Rule(r"\bmeeting\b", "handshake", "csrc/runtime|csrc/sharding/deliver|tests/on_host/deliver"),
    Rule(r"\btold\b", "flags", "csrc/runtime|csrc/sharding/deliver|tests/on_host/deliver"),
    Rule(r"\bletters\b", "puts", "torch_conv/distributed/|tests/test_symmetric_memory"),
    Rule(r"\bRoute\b", "CachedCall", "torch_conv/distributed/"),
    Rule(r"(?<=[.])shortcut\b", "cached_launches", "torch_conv/distributed/"),
]

# Sentences that only change a word. In prose.
SENTENCES = [
    Rule(r"\bChannels side by side\b", "Interleaved channels"),
    Rule(r"\b(whose|where|as) channels (lie|stand) side by side\b", r"\1 channels are interleaved"),
    Rule(r"\bchannels that lie side by side\b", "interleaved channels"),
    Rule(r"\bChannels that lie side by side\b", "Interleaved channels"),
    Rule(r"\b([Cc])hannels (lie|stand) side by side\b", r"\1hannels are interleaved"),
    Rule(r"\b(the|[Tt]he|[Ww]hose) room for (?=depthwise|volumes|images|them|any window)", r"\1 kernel family for "),
    Rule(r"\b[Rr]ooms\b", lambda m: f"{'K' if m[0][0] == 'R' else 'k'}ernel families", "csrc/|tests/"),
    Rule(
        r"\b[Rr]oom\b", lambda m: f"{'K' if m[0][0] == 'R' else 'k'}ernel family", "csrc/|tests/test_|tests/box", ROOM
    ),
    Rule(r"\b([Tt])he hall\b", r"\1he operator layer", "csrc/"),
    Rule(r"\bthe (shards|ranks) beside (it|them|this one|its own|an image)\b", r"the neighbour \1"),
    Rule(r"\bthose beside (it|them)\b", "its neighbours", "csrc/|tests/"),
    Rule(r"\b([Ss])eam(s?) (?=(between|of) shards)", lambda m: f"{'bB'[m[1] == 'S']}oundar{'ies' if m[2] else 'y'} "),
    Rule(r"\b([Ss])eam(s?)\b", lambda m: f"{'bB'[m[1] == 'S']}oundary strip{m[2]}"),
    Rule(r"\b([Mm])ailbox(es)?\b(?! ?[\[.:=,)])", lambda m: f"{'sS'[m[1] == 'M']}ymmetric buffer{'s' if m[2] else ''}"),
    Rule(r"\bwords of (8|16) bytes\b", r"vectors of \1 bytes"),
    Rule(r"\b([Aa]) photo(graph)?\b(?!s)", r"\1n HWC image", NATIVE),
    Rule(r"\b[Pp]hoto(graph)?(s?)\b(?!,? \(H)", r"HWC image\2", NATIVE),
    Rule(r"\b[Pp]hoto(graph)?s,? \(H, W, C\)", "HWC images", NATIVE),
]

# Words of prose: comments, docstrings and documents. They are mended by hand; `new` says in which words.
PROSE = [
    Rule(r"\b[Rr]ooms?\b", "kernel family", allow=ROOM),
    Rule(r"\b([Hh]all|cellar)\b", "operators, core"),
    Rule(r"\bdoors?\b", "entry point"),
    Rule(r"\b([Ss]hards?|rows|planes|ranks|those) beside\b", "neighbour shard"),
    Rule(r"\b([Ll]en(ds?|t|ding|ders?)|[Bb]orrow(s|ed|ers?|ing)?)\b", "read by a neighbour"),
    Rule(r"\b([Mm]ail|[Mm]ailbox(es)?)\b", "symmetric memory"),
    Rule(r"\bletters?\b", "put", "torch_conv/distributed/|csrc/"),
    Rule(r"\b[Ss]eams?\b", "boundary between shards"),
    Rule(r"\b[Mm]arch(es|ing|ed)?\b", "stream"),
    Rule(r"\b[Cc]hannels[^.;:]{0,24} side by side", "interleaved channels"),
    Rule(r"\b(came|comes|come) down to\b", "recorded launches, cached call"),
    Rule(r"\b(goes?|went|going) the way of\b", "falls back to"),
    Rule(r"\b(loses|gains)\b", "is slower, is faster", "csrc/kernels/"),
    Rule(r"\b[Ww]hat stands outside\b", "halo"),
    Rule(r"\bword in why\b", "refusal reason"),
    Rule(r"\bspoil(s|t|ed)?\b", "invalidate", "csrc/(api|dispatch|graph|tensors|sharding)/"),
    Rule(r"\bshort ?cuts?\b", "cached call"),
    Rule(r"\blots\b", "subtiles", "csrc/kernels/box/"),
    Rule(r"\b[Rr]ead once (more|again)\b", "(no history)"),
]

# Members that look like files.
MEMBERS = frozenset({"in.h", "out.h"})
# A cheap look for lines that may hold an old word.
STEMS = (
    "room|door|hall|cellar|beside|side by|lend|lent|borrow|mail|letter|meet|told|seam|reach|march|lot|place|way|photo|"
)
STEMS += "product|word|route|shortcut|short cut|down to|gains|loses|outside|spoil|once"
LINE = re.compile(rf"^.*(?:{STEMS}).*$", re.MULTILINE | re.IGNORECASE)
FILE = re.compile(r"(?<![\w/.$<-])((?:[\w*.-]+/)*[\w*-][\w*.-]*\.(?:cpp|cuh|h|py))\b(?!\()")


def tracked(paths: Sequence[str] = ()) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "--", *paths], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in listed.stdout.splitlines() if (ROOT / path).is_file()]


def texts(paths: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    for path in tracked(paths):
        if path.startswith(SKIPPED):
            continue
        try:
            text = (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        yield path, text


STRING = r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
COMMENT_OF_NATIVE = re.compile(rf"(//[^\n]*|/\*.*?\*/)|{STRING}", re.DOTALL)
COMMENT_OF_PYTHON = re.compile(rf'(""".*?"""|#[^\n]*)|{STRING}', re.DOTALL)


def comments(text: str, token: re.Pattern[str]) -> Spans:
    return [m.span() for m in token.finditer(text) if m[1]]


def prose_of_document(text: str) -> Spans:
    spans, at = [], 0
    for fence in re.finditer(r"^ *```.*?^ *```", text, re.DOTALL | re.MULTILINE):
        spans.append((at, fence.start()))
        at = fence.end()
    return [*spans, (at, len(text))]


def prose_of(path: str, text: str) -> Spans:
    if path.endswith((".cpp", ".cuh", ".h")):
        return comments(text, COMMENT_OF_NATIVE)
    if path.endswith(".py"):
        return comments(text, COMMENT_OF_PYTHON)
    if path.endswith(".md"):
        return prose_of_document(text)
    return [m.span() for m in re.finditer(r"#[^\n]*", text)]


def replaced(rule: Rule, m: re.Match[str]) -> str:
    return rule.new(m) if callable(rule.new) else m.expand(rule.new)


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


def line_at(text: str, at: int) -> str:
    return text[text.rfind("\n", 0, at) + 1 : (text + "\n").find("\n", at)]


def is_code(text: str, begin: int) -> bool:
    """Whether prose writes a word as code: within backquotes, or as a part of a path or of a qualified name."""
    line_begin = text.rfind("\n", 0, begin) + 1
    if text.count("`", line_begin, begin) % 2:
        return True
    word = re.search(r"[\w./:<>*-]*$", text[line_begin:begin])[0] + re.match(r"[\w./:<>*-]*", text[begin:])[0]  # type: ignore[index]
    return bool(re.search(r"\w/\w|::|\.(h|cuh|cpp|py)\b", word)) and not word.endswith("/or")


def old_words(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Line by line: no rule sees more than one."""
    inside = bytearray(len(text) + 1)
    for begin, end in prose_of(path, text):
        inside[begin:end] = b"\1" * (end - begin)
    of_path = [
        (rule, prose)
        for rules, prose in ((NAMES, None), (CODE, False), (SENTENCES, True), (PROSE, True))
        for rule in rules
        if not rule.where or re.match(rule.where, path)
    ]
    for line in LINE.finditer(text):
        for rule, prose in of_path:
            for m in compiled(rule.old).finditer(line[0]):
                at = line.start() + m.start()
                is_prose = bool(inside[at]) and not is_code(text, at)
                if prose in (None, is_prose) and not (rule.allow and re.search(rule.allow, line[0])):
                    yield text.count("\n", 0, at) + 1, f"'{m[0]}' is an old word for '{replaced(rule, m)}'"


def stale_names(path: str, text: str, known: Collection[str]) -> Iterator[tuple[int, str]]:
    """Files that prose names and the tree does not have. A name may begin at any folder, and hold stars."""
    for begin, end in prose_of(path, text):
        for m in FILE.finditer(text, begin, end):
            name = m[1]
            if re.search(r"[A-Z]{2}|\bX\b|://", name) or name in MEMBERS:
                continue
            name = name.removeprefix("./")
            if name not in known and not ("*" in name and fnmatch.filter(known, name)):
                yield text.count("\n", 0, m.start()) + 1, f"there is no file '{name}'"


def findings(paths: Sequence[str] = ()) -> list[str]:
    parts = [path.split("/") for path in tracked()]
    known, found = {"/".join(p[i:]) for p in parts for i in range(len(p))}, []
    for path, text in texts(paths):
        if path.startswith(PENDING):
            continue
        if path == "CHANGELOG.md":  # of what is released nothing changes
            text = re.sub(r"^  \|.*", "", "\n## [".join(text.split("\n## [")[:2]), flags=re.MULTILINE)  # nor in a table
        lines = {*old_words(path, text), *stale_names(path, text, known)}
        found += [f"{path}:{line}: {what}" for line, what in sorted(lines)]
    return found


def applied(path: str, text: str) -> str:
    for rules, prose in ((NAMES, None), (CODE, False), (SENTENCES, True)):
        for rule in rules:
            if (rule.where and not re.match(rule.where, path)) or not compiled(rule.old).search(text):
                continue
            spans = prose_of(path, text)

            def new(
                m: re.Match[str], spans: Spans = spans, text: str = text, rule: Rule = rule, prose: bool | None = prose
            ) -> str:
                is_prose = any(begin <= m.start() < end for begin, end in spans) and not is_code(text, m.start())
                if prose not in (None, is_prose) or (rule.allow and re.search(rule.allow, line_at(text, m.start()))):
                    return m[0]
                return replaced(rule, m)

            text = compiled(rule.old).sub(new, text)
    return text


def in_new_words(code: str) -> str:
    """Of code without comments, by the rules of all paths: for comparing what was written before a rename and after."""
    for rule in (*NAMES, *CODE):
        code = compiled(rule.old).sub(lambda m, rule=rule: replaced(rule, m), code)  # type: ignore[misc]
    return code


def apply(paths: Sequence[str]) -> None:
    for path, text in texts(paths):
        if path != "CHANGELOG.md" and (changed := applied(path, text)) != text:
            (ROOT / path).write_text(changed, encoding="utf-8")
    for path in tracked(paths):
        # A path is a name in code: `march/plan.h` becomes `streaming/plan.h`.
        renamed = applied(path, f"`{path}`")[1:-1] if not path.startswith(SKIPPED) else path
        if renamed != path:
            (ROOT / renamed).parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["git", "mv", path, renamed], cwd=ROOT, check=True)


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["--apply"]:
        apply(arguments[1:])
        return 0
    found = findings(arguments)
    sys.stdout.writelines(f"{line}\n" for line in found)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
