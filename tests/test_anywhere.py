"""`torch-conv bench anywhere`: calls drawn from a seed, their checks, floors and rivals, and the command."""

import inspect
import json
import os
from collections import Counter
from dataclasses import replace

import pytest
import torch
from command_line import refused, run

import torch_conv
from torch_conv import reference
from torch_conv.bench import documents
from torch_conv.bench.anywhere import chains, checking, floors, gradients, measure, report, running, work
from torch_conv.bench.anywhere.call import INNER, INNER_CROP, Call, Taps
from torch_conv.bench.anywhere.draws import CALLS, FAMILIES, ORDERED, Limits, cells, draw
from torch_conv.bench.anywhere.floors import Rate, Rates
from torch_conv.bench.anywhere.rivals import rivals
from torch_conv.bench.common import Candidate
from torch_conv.dispatch.borders import BORDERS
from torch_conv.dispatch.formats import DTYPES

SMALL = Limits(4e5, 4e6)
RATES = Rates(Rate(1e9, "a test"), Rate(5e8, "a test"), None)


@pytest.fixture(scope="module")
def drawn():
    return draw(3, SMALL)


# ---- draws -----------------------------------------------------------------------------------------------------------


def test_every_function_and_dtype_is_drawn(drawn):
    assert set(FAMILIES) == set(torch_conv.functional.__all__)
    assert set(ORDERED) == DTYPES
    assert Counter((call.function, call.dtype) for call in drawn) == dict.fromkeys(cells(), CALLS)
    assert len({call.name for call in drawn}) == len(drawn)


def test_every_border_of_every_function_is_drawn(drawn):
    for function in torch_conv.functional.__all__:
        if "border_type" in inspect.signature(getattr(torch_conv, function)).parameters:
            found = {call.options.get("border_type") for call in drawn if call.function == function}
            assert found >= {None, *BORDERS}, function


def test_gradients_are_drawn_of_floats():
    calls = draw(3, SMALL, backward=True)
    assert Counter((call.function, call.dtype) for call in calls) == dict.fromkeys(cells(True), CALLS)
    assert all(call.dtype.is_floating_point and call.backward for call in calls)


def test_a_seed_gives_the_same_calls(drawn):
    assert draw(3, SMALL, calls=200) == drawn[:200]
    assert draw(4, SMALL, calls=200) != drawn[:200]
    some = [call for call in drawn if call.function in ("sobel", "conv1d")]
    assert {call.name for call in draw(3, SMALL, families=["sobel", "conv1d"])} == {call.name for call in some}


def test_the_first_calls_are_of_all_cells(drawn):
    assert {(call.function, call.dtype) for call in drawn[: len(cells())]} == set(cells())


def test_large_images_are_shrunk():
    whole, small = draw(5, calls=400), draw(5, SMALL, calls=400)
    assert max(map(work.bytes_moved, whole)) > 1e9
    kept = [call for call in small if call.function not in ("causal_conv1d", "conv1d", "conv2d", "conv3d")]
    sizes = list(map(work.bytes_moved, kept))
    assert max(sizes) <= 10 * SMALL.bytes  # some windows are as large as their images
    assert sum(size <= SMALL.bytes for size in sizes) > 0.97 * len(sizes)
    assert [call.options for call in whole] == [call.options for call in small]


def test_layouts():
    call = Call("sobel", torch.uint8, 0, "photo", (3, 20, 30), INNER)
    assert call.image("cpu").stride() == call.blank("cpu").stride() == (1, 90, 3)
    assert torch.equal(call.image("cpu", 1), call.image("cpu", 1))
    assert not torch.equal(call.image("cpu", 1), call.image("cpu", 2))
    crop = replace(call, layout=INNER_CROP).image("cpu")
    assert crop.shape == (3, 20, 30) and not crop.permute(1, 2, 0).is_contiguous()


# ---- checks ----------------------------------------------------------------------------------------------------------


def error(call):
    x = call.image("cpu")
    result = call.bound("cpu")(x)
    return checking.error_of(result, checking.pieces_of(call, x, call.arguments("cpu"))), result


@pytest.mark.parametrize("function", torch_conv.functional.__all__)
def test_drawn_calls_are_accepted_and_right(function, drawn):
    """One of each dtype and border."""
    calls = [call for call in drawn if call.function == function]
    for call in calls[:: 2 if len(calls) > 40 else 1]:
        apart, result = error(call)
        assert apart <= checking.tolerance(result.dtype), call.name
        assert (tuple(result.shape), result.dtype) == work.result_of(call)


BLUR = Call("gaussian_blur2d", torch.float32, 0, "photo", (2, 90, 100), options={"kernel_size": 5, "sigma": 1.0})


@pytest.mark.parametrize("place", [(0, 0, 0), (-1, 0, 0), (-1, 45, 50), (-1, 89, 99)])
def test_a_wrong_pixel_is_seen(place):
    """At each corner and in the middle of the last image; the others are not compared."""
    x = BLUR.image("cpu")
    result = BLUR.bound("cpu")(x)
    result[place] += 1e-3
    apart = checking.error_of(result, checking.pieces_of(BLUR, x, BLUR.arguments("cpu")))
    assert (apart > checking.tolerance(torch.float32)) == (place != (0, 0, 0))


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize(
    ("function", "shape", "options", "tensors"),
    [
        ("box_blur", (9, 12), {"kernel_size": (3, 4), "value": 0.5}, {}),
        ("box_blur", (9, 12), {"kernel_size": 3, "value": 0.5, "normalized": False}, {}),
        ("gaussian_downsample", (9, 12), {"sigma": 0.7, "factor": 2}, {}),
        ("gaussian_gradient_magnitude3d", (8, 9, 9), {"sigma": 0.6, "mode": "sobel"}, {}),
        (
            "filter2d_separable",
            (9, 12),
            {"stride": (2, 1), "dilation": 2, "value": 0.5},
            {f"kernel_{axis}": Taps("dense row", (3,)) for axis in "xy"},
        ),
    ],
)
def test_axis_by_axis_is_the_reference(function, shape, options, tensors, border):
    if border == "skip" and tensors:
        tensors = {key: Taps("smooth row", taps.shape) for key, taps in tensors.items()}
    call = Call(function, torch.float64, 0, "test", shape, options=options | {"border_type": border}, tensors=tensors)
    x, given = call.image("cpu"), call.arguments("cpu")
    assert list(checking.rows_of(call, given))
    torch.testing.assert_close(checking.expected(call, x, dict(given)), getattr(reference, function)(x, **given))


@pytest.mark.parametrize("function", [name for name, _ in Counter(f for f, _ in cells(True)).items()])
def test_gradients_are_right(function):
    limits = Limits(1e5, 1e6)
    for call in draw(1, limits, backward=True, families=[function])[::3]:
        if call.dtype == torch.float32:
            x = call.image("cpu")
            own = measure.ours(call, "cpu")
            found = own.call(own.prepare(x))
            pieces = gradients.gradient_pieces(call, x, call.arguments("cpu"))
            allowed = checking.tolerance(found.dtype, backward=True)
            assert checking.error_of(found, pieces) <= allowed < checking.error_of(found + 1e-3, pieces), call.name


# ---- floors and rivals -----------------------------------------------------------------------------------------------


def call_of(function, shape=(100, 100), dtype=torch.float32, tensors=None, **options):
    return Call(function, dtype, 0, "test", shape, options=options, tensors=tensors or {})


@pytest.mark.parametrize(
    ("call", "each"),
    [
        (call_of("gaussian_blur2d", kernel_size=15, sigma=2.0), 30),
        (call_of("gaussian_blur2d", sigma=2.0), 34),
        (call_of("gaussian_downsample", kernel_size=5, sigma=1.0, factor=2), 15),
        (call_of("box_blur", kernel_size=31), 4),
        (call_of("box_blur3d", (20, 20, 20), kernel_size=3), 6),
        (call_of("filter2d", tensors={"kernel": Taps("dense", (3, 3))}), 9),
        (call_of("filter2d", tensors={"kernel": Taps("dense", (3, 15))}), 45),
        (call_of("filter2d", tensors={"kernel": Taps("gabor", (15, 15))}), 60),
        (call_of("filter2d", tensors={"kernel": Taps("line", (15, 15))}), 15),
        (call_of("filter3d", (20, 20, 20), tensors={"kernel": Taps("star volume", (3, 3, 3))}), 7),
        (call_of("laplacian", kernel_size=3, variant="4"), 5),
        (call_of("sobel"), 12),
        (call_of("conv2d", (1, 8, 9, 9), tensors={"weight": Taps("weights", (8, 1, 3, 3))}, groups=8), 9),
    ],
)
def test_multiply_adds_of_the_cheapest_form(call, each):
    shape, _ = work.result_of(call)
    assert work.multiply_adds(call) == each * torch.Size(shape).numel()


def test_bytes_are_those_of_image_and_result():
    call = call_of("sobel", dtype=torch.uint8, output_dtype=torch.float32)
    assert work.bytes_moved(call) == 10_000 + 40_000
    assert work.bytes_moved(replace(call_of("sobel"), backward=True)) == 3 * 40_000  # the image is read again
    assert work.bytes_moved(replace(BLUR, backward=True)) == 2 * BLUR.image("cpu").nbytes


def test_the_rate_is_that_of_the_dtype():
    rates = replace(RATES, tensor_cores=Rate(1e10, "a test"))
    call = call_of("gaussian_blur2d", kernel_size=5, sigma=1.0)
    seconds = {dtype: rates.seconds(replace(call, dtype=dtype)) for dtype in ORDERED}
    plain = 1e5 / 1e9
    assert seconds[torch.float32] == seconds[torch.int16] == seconds[torch.uint16] == plain
    assert seconds[torch.float64] == 2 * plain
    assert seconds[torch.float16] == seconds[torch.bfloat16] == pytest.approx(plain / 10)
    assert seconds[torch.uint8] == pytest.approx(plain / 5)  # its taps in two parts
    assert RATES.seconds(replace(call, dtype=torch.float16)) == plain


def test_rates_of_this_machine():
    rates = floors.measure_rates("cpu")
    assert rates.float32.per_second > 1e8 and rates.float64.per_second > 1e8
    assert rates.tensor_cores is None
    copy, add = floors.copies("cpu", 8000, 2)
    for each in (copy, add):
        assert each.call(each.prepare(1)).numel() == 1000


@pytest.mark.parametrize("function", [name for name in torch_conv.functional.__all__ if name not in ("thin_edges",)])
def test_torch_is_a_rival_that_does_the_same(function, drawn):
    calls = [call for call in drawn if call.function == function and call.dtype in (torch.float32, torch.float64)]
    met = 0
    for call in calls:
        x = call.image("cpu")
        pieces = checking.pieces_of(call, x, call.arguments("cpu"))
        for rival in rivals(call, "cpu"):
            if rival.name.startswith("F.conv"):
                result = rival.result(rival.call(rival.prepare(x)))
                assert checking.error_of(result, pieces) <= measure.SLOPPY * checking.tolerance(result.dtype), call.name
                met += 1
    assert met >= 4


def test_torch_lacks_some_borders():
    given = {"border_type": "symmetric"}
    assert not chains.has_form(BLUR, BLUR.options | given)
    assert chains.has_form(BLUR, BLUR.options)


# ---- one measurement -------------------------------------------------------------------------------------------------

OPTIONS = measure.Options("cpu", 3, RATES)


def test_a_row():
    row = measure.measure(BLUR, OPTIONS)
    assert row["correct"] and 0 < row["share"] <= 1
    assert row["floor_us"] >= min(row["timings"][name]["median_us"] for name in ("copy_", "add"))
    assert row["resident"]
    assert row["best_rival"] in row["timings"]
    assert row["plan"] == ["filter2d_separable: separable/rows"]
    json.dumps(row)
    assert measure.measure(replace(BLUR, backward=True), OPTIONS)["plan"] == ["filter2d: direct/rows"]


def test_a_wrong_result_is_not_timed(monkeypatch):
    blurred = torch_conv.gaussian_blur2d
    monkeypatch.setattr(torch_conv, "gaussian_blur2d", lambda input, **given: blurred(input, **given) + 0.01)
    row = measure.measure(BLUR, OPTIONS)
    assert not row["correct"] and "timings" not in row
    assert report.line(row).startswith("WRONG    error 1.0e-02")


def test_a_rival_with_another_result_is_left_out(monkeypatch):
    others = [
        Candidate("wrong", lambda x: x),
        Candidate("broken", lambda x: x.nothing),
        Candidate("right", lambda x: torch_conv.gaussian_blur2d(x, 5, 1.0)),
    ]
    monkeypatch.setattr(measure, "rivals", lambda call, device: others)
    row = measure.measure(BLUR, OPTIONS)
    assert row["best_rival"] == "right"
    assert row["left_out"]["wrong"].startswith("another result: error ")
    assert "nothing" in row["left_out"]["broken"]


def test_a_failure_costs_one_call(monkeypatch, capsys):
    def fail(call, options, first):
        raise RuntimeError(f"no {call.function}")

    monkeypatch.setattr(running, "measure", fail)
    outcome = running.Outcome()
    running.one(BLUR, OPTIONS, None, outcome)
    assert outcome.failed == {BLUR.name: "no gaussian_blur2d"} and not outcome.right
    assert report.wrong(outcome)[1] == "Wrong or failed: 1 call"


def test_first_calls_come_one_after_the_other(monkeypatch):
    """As on a GPU: in an empty folder of kernels, which all have before the end."""
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(running, "wait_for_kernels", lambda own, x: waited.append(x.shape))
    calls = [BLUR, replace(BLUR, number=1), replace(BLUR, number=2, backward=True)]
    calls.insert(1, replace(BLUR, number=3, options={"kernel_size": 4, "sigma": 1.0}))  # is refused
    outcome = running.Outcome()
    firsts = running.first_calls(calls, OPTIONS, outcome, float("inf"))
    assert list(firsts) == [call.name for call in calls if call.number != 3]
    assert all(seconds > 0 for seconds in firsts.values())
    assert waited == [(2, 90, 100)] * 3
    assert outcome.first["calls"] == 3
    assert outcome.first["steady_after_seconds"] >= outcome.first["all_seconds"] > 0
    assert running.first_calls(calls, OPTIONS, outcome, 0.0) == {}


def test_the_kernel_cache_is_empty_for_a_while(monkeypatch):
    monkeypatch.setenv("TORCH_CONV_CACHE", "0")
    with measure.empty_kernel_cache():
        folder = os.environ["TORCH_CONV_CACHE"]
        assert os.listdir(folder) == []
    assert os.environ["TORCH_CONV_CACHE"] == "0" and not os.path.exists(folder)


# ---- the summary -----------------------------------------------------------------------------------------------------


def made(name, share, function="sobel", dtype="float32", **facts):
    timings = {"torch_conv": {"median_us": 100.0, "iqr_us": 1.0}, "rival": {"median_us": 200.0, "iqr_us": 1.0}}
    row = {
        "name": name,
        "function": function,
        "dtype": dtype,
        "share": share,
        "correct": True,
        "resident": False,
        "floor_us": 100 * share,
        "floor_of": "bytes",
        "best_rival": "rival",
        "speedup": 2.0,
        "plan": ["sobel2d: fused/rows"],
        "first_ms": None,
        "timings": timings,
    }
    return row | facts


def test_the_summary_says_the_losses_first():
    slow = {"torch_conv": {"median_us": 100.0, "iqr_us": 1.0}, "rival": {"median_us": 50.0, "iqr_us": 1.0}}
    noisy = {"torch_conv": {"median_us": 100.0, "iqr_us": 9.0}, "rival": {"median_us": 99.0, "iqr_us": 9.0}}
    rows = [
        made("fine", 0.9, resident=True),
        made("lost", 0.2, speedup=0.5, timings=slow, floor_of="arithmetic", first_ms=30.0),
        made("noise", 0.4, "laplacian", "uint8", speedup=0.99, timings=noisy, first_ms=2.0),
        made("alone", 0.6, best_rival=None, speedup=None),
    ]
    outcome = running.Outcome(rows, seconds=7, not_reached=5, absent={"cupyx"})
    outcome.first = {
        "calls": 2,
        "all_seconds": 1.0,
        "steady_after_seconds": 3.0,
        "kernels_compiled": 4,
        "context_seconds": 0.5,
        "library_seconds": 0.1,
    }
    assert report.figures(rows)["lost"] == 1
    assert report.figures(rows)["first_ms"]["median"] == 16.0
    chosen = [(name, dtype) for name, dtype in cells() if name in ("sobel", "laplacian")]
    lines = report.summary(outcome, chosen)
    assert lines[1] == "Lost to a rival: 1 of 3 calls that a rival can do"
    assert lines[2].split()[:3] == ["0.50", "x", "rival"] and lines[2].endswith("lost")
    text = "\n".join(lines)
    for part in (
        "\n  all                              4    23    35      50    68\n",
        "\n  in cache                         1    90    90      90    90\n",
        "\n  laplacian     .     .     .     .     .     .    40\n",
        "\n  sobel         .     .    60     .     .     .     .\n",
        "\n  4 calls in 2 of 14 cells, at least 1 in each (fewer than 8 say little)\n",
        "\n  without calls (.): laplacian bf16, ",
        "\nThe worst 4\n   20.0 %   100.0 us  lost\n           sobel2d: fused/rows\n",
        "\n  median 16.00 ms, p90 27.20 ms, p99 29.72 ms, worst 30.00 ms\n",
        "4 kernels compiled, all calls at steady speed after 3.0 s",
        "4 calls in 7 s; 5 more were not reached in time\nrivals that are not installed: cupyx",
    ):
        assert part in text, part


# ---- the command -----------------------------------------------------------------------------------------------------

COMMAND = ["bench", "anywhere", "--device", "cpu", "--seed", "2"]


@pytest.fixture
def small_calls(monkeypatch):
    from torch_conv.cli import anywhere

    monkeypatch.setattr(running, "keep_freed_memory", lambda: None)  # this process goes on to test other things
    monkeypatch.setattr(anywhere, "limits_of", lambda device: SMALL)


def test_a_run_writes_what_the_report_reads(small_calls, tmp_path, capsys):
    file = tmp_path / "new.json"
    options = ["--family", "sobel,conv1d", "--calls", "4", "--rounds", "3", "--json", file]
    assert run(*COMMAND, *options) == 0
    said = capsys.readouterr().out
    assert "\nLost to a rival: " in said and "\n4 calls in " in said
    written = json.loads(file.read_text())
    assert written["metadata"]["seed"] == 2
    assert written["metadata"]["limits"] == {"bytes": SMALL.bytes, "multiply_adds": SMALL.multiply_adds}
    calls = draw(2, SMALL, families=["sobel", "conv1d"], calls=4)
    assert [row["name"] for row in written["rows"]] == [call.name for call in calls]
    assert written["summary"]["calls"] == 4 and 0 < written["summary"]["share_percent"]["median"] <= 100
    assert said.startswith("4 calls of seed 2; multiply-adds: float32 ")
    (document,) = documents.read(file)
    assert (document.form, len(document.rows)) == (documents.TIMED, 4)
    assert refused(capsys, *COMMAND, *options).endswith("exists already; --force replaces it")


def test_calls_are_listed(small_calls, capsys):
    assert run(*COMMAND, "--calls", "3", "--list", "--backward") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [call.name for call in draw(2, SMALL, backward=True, calls=3)]
    assert all(" gradient, " in line for line in lines)


def test_a_wrong_result_ends_with_status_1(small_calls, monkeypatch, capsys):
    monkeypatch.setattr(measure, "tolerance", lambda dtype, backward: -1.0)
    assert run(*COMMAND, "--family", "sobel", "--calls", "1") == 1
    assert "\nWrong or failed: 1 call\n" in capsys.readouterr().out


def test_the_time_is_limited(small_calls, capsys):
    assert run(*COMMAND, "--family", "sobel", "--minutes", "0.000001") == 0
    assert "; 56 more were not reached in time" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--family", "sobell"], "unknown family 'sobell', did you mean 'sobel'?"),
        (["--calls", "-1"], "--calls must be at least 0, got -1"),
        (["--rounds", "2"], "--rounds must be at least 3, got 2"),
        (["--minutes", "-1"], "--minutes must not be negative, got -1"),
    ],
)
def test_refusals(arguments, sentence, capsys):
    assert refused(capsys, *COMMAND, *arguments) == f"torch-conv bench anywhere: {sentence}"


def test_gradients_of_a_function_without_one(capsys):
    said = refused(capsys, *COMMAND, "--backward", "--family", "causal_conv1d_update")
    assert "unknown family 'causal_conv1d_update'" in said
