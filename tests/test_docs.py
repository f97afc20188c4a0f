"""The README and the pages of docs/: every snippet runs, every link leads somewhere, the tables are up to date.

The old and new lines of docs/migrate.md have equal results, except for the differences that it names.
"""

import ast
import functools
import importlib
import inspect
import linecache
import os
import re
import shlex
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from conftest import ROOT
from strategies import make_image, make_window
from torch import nn

import torch_conv
from torch_conv.distributed import _operators
from torch_conv_cli import build_parser

np = pytest.importorskip("numpy")
PACKAGE = os.path.dirname(torch_conv.__path__[0])  # of the checkout, or installed
MIGRATE = ROOT / "docs" / "migrate.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Documents without snippets.
OTHERS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / ".github").rglob("*.md"))]
if not MIGRATE.exists():
    pytest.skip("not a checkout", allow_module_level=True)

C = 4
IMAGE = make_image((2, C, 20, 21))
# The libraries of a section's lines.
NAMES = {
    "kornia": {"x": IMAGE, "k": make_window((1, 3, 5)), "kx": make_window((1, 5)), "ky": make_window((1, 3))},
    "torch.nn.functional and torch.nn": {"x": IMAGE, "w": make_window((C, 1, 7, 7)), "b": make_window((C,)), "C": C},
    "torchvision": {"img": IMAGE},
    "scipy.ndimage": {"a": IMAGE[0, 0].double().numpy(), "x": IMAGE[0, 0].double()},
    "OpenCV": {"img": make_image((20, 21, 3), torch.uint8).numpy()},
    "causal-conv1d": {"x": make_image((2, C, 30)), "w": make_window((C, 4)), "state": make_image((2, C, 3))},
}
# The calls of the names that a line imports.
IMPORTED = {
    "gaussian_blur": "gaussian_blur(img, [5, 3], [1.5, 0.5])",
    "gaussian_filter": "gaussian_filter(a, 2.0)",
    "correlate1d": "correlate1d(a, [1.0, 2.0, 4.0])",
    "causal_conv1d_fn": "causal_conv1d_fn(x, w, activation='silu')",
    "causal_conv1d_update": "causal_conv1d_update(x[..., 0], state.clone(), w)",
}
ELLIPSIS = {"Conv2d(...)": "Conv2d(C, C, 7, groups=C)", "...": "x, w, b, padding=3, groups=C"}


def rows():
    """(section, the old column, the new one) of every row of every table."""
    section = ""
    for line in MIGRATE.read_text().splitlines() if MIGRATE.exists() else []:
        section = line[3:] if line.startswith("## ") else section
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 2 and cells[0] not in ("old", "---"):
            yield section, *cells


def lines_of(cell):
    return re.findall(r"`([^`]+)`", cell)


def run(line, names):
    """The value of a line: its expression's, or those of calls of the names that it imports."""
    for short, whole in ELLIPSIS.items():
        line = line.replace(short, whole)
    *statements, last = ast.parse(line).body
    scope = {"F": F, "nn": nn, "torch_conv": torch_conv, **names}
    if isinstance(last, ast.Expr):
        exec(compile(ast.Module(statements, []), line, "exec"), scope)
        return [eval(compile(ast.Expression(last.value), line, "eval"), scope)]
    exec(line, scope)
    return [eval(IMPORTED[alias.name], scope) for alias in last.names]


def same(got, expected, names):
    if isinstance(expected, nn.Module):
        got.load_state_dict(expected.state_dict())
        got, expected = (module(names["x"]).detach() for module in (got, expected))
    got, expected = (torch.as_tensor(value) for value in (got, expected))
    assert got.dtype == expected.dtype
    bytes_differ = 1 if got.dtype == torch.uint8 else 1e-5
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=bytes_differ)


@pytest.mark.parametrize(("section", "old", "new"), list(rows()), ids=lambda text: text[:40])
def test_old_and_new_lines(section, old, new):
    names = NAMES[section]
    if section == "causal-conv1d":  # which runs on GPUs alone
        whole, step = run(lines_of(new)[0], names)
        x, w, state = names["x"], names["w"], names["state"]
        same(whole, F.silu(F.conv1d(F.pad(x, (3, 0)), w[:, None], groups=C)), names)
        same(step, (torch.cat([state, x[..., :1]], -1) * w).sum(-1), names)
        return
    if old == "a model":
        model = nn.Sequential(nn.Conv2d(C, C, 3), nn.Conv2d(C, C, 3, groups=C))
        expected = model(IMAGE)
        assert run(lines_of(new)[0], {"model": model}) == [["1"]]
        torch.testing.assert_close(model(IMAGE), expected, rtol=1e-5, atol=1e-5)
        return
    for library in ("kornia", "scipy"):
        names = {**names, library: pytest.importorskip(library)}
    before = [line if "." in line.split("(")[0] else f"kornia.filters.{line}" for line in lines_of(old)]
    after = lines_of(new)
    if new.startswith("the same names in"):
        after = [line.replace("kornia.filters", after[0]) for line in before]
    assert before
    for old_line, new_line in zip(before, after[: len(before)], strict=True):  # prose follows
        for got, expected in zip(run(new_line, names), run(old_line, names), strict=True):
            same(got, expected, names)


@pytest.mark.parametrize(("section", "module"), [("scipy.ndimage", "scipy_ndimage"), ("OpenCV", "cv2")])
def test_documents_name_the_served_functions(section, module):
    (paragraph,) = re.findall(rf"## {section}\n.*?\nServed are (.*?) with ", MIGRATE.read_text(), re.DOTALL)
    facade = importlib.import_module(f"torch_conv.compat.{module}")
    functions = {name for name in facade.__all__ if callable(getattr(facade, name))}
    assert set(re.findall(r"`(\w+)`", paragraph)) == functions


def test_differences_from_kornia():
    kornia = pytest.importorskip("kornia")
    window = make_window((1, 4, 2))
    odd = F.pad(window, (1, 0, 1, 0))  # in kornia's layout
    torch.testing.assert_close(torch_conv.filter2d(IMAGE, window), kornia.filters.filter2d(IMAGE, odd))
    image = make_image((20, 21), torch.uint8)
    exact = torch_conv.filter2d(image.double(), torch.full((2, 2), 0.25))
    assert torch.equal(torch_conv.filter2d(image, torch.full((2, 2), 0.25)), exact.round().to(torch.uint8))
    given = [IMAGE.clone().requires_grad_() for _ in range(2)]
    for library, x in zip((torch_conv, kornia.filters), given, strict=True):
        library.gaussian_blur2d(x, (5, 5), (1.5, 1.5)).square().sum().backward()
    torch.testing.assert_close(given[0].grad, given[1].grad)


def test_differences_from_torchvision():
    from torch_conv.compat.torchvision import gaussian_blur

    assert gaussian_blur(IMAGE[:, :, :4, :4], [11, 11]).shape == (2, C, 4, 4)
    assert torch.equal(gaussian_blur(IMAGE[0, 0], [3, 3]), gaussian_blur(IMAGE, [3, 3])[0, 0])
    with pytest.raises(TypeError):
        gaussian_blur(IMAGE.cfloat(), [3, 3])


def test_differences_from_scipy():
    ndi = pytest.importorskip("scipy.ndimage")
    from torch_conv.compat import scipy_ndimage as ours

    a = NAMES["scipy.ndimage"]["a"].copy()
    a[3, 4] = np.nan
    assert np.isnan(ours.uniform_filter(a, 3)).sum() == 9 < np.isnan(ndi.uniform_filter(a, 3)).sum()
    for given in (a.astype(complex), lambda x: x):
        with pytest.raises((TypeError, NotImplementedError, RuntimeError)):
            ours.gaussian_filter(given, 1.0)
    x, k = IMAGE[0, 0].double(), make_window((5, 5), torch.float64)
    for theirs, border in (("reflect", "symmetric"), ("mirror", "reflect")):
        expected = ndi.correlate(x.numpy(), k.numpy(), mode=theirs)
        np.testing.assert_allclose(torch_conv.filter2d(x, k, border).numpy(), expected, rtol=1e-12, atol=1e-12)


def test_differences_from_opencv():
    cv2 = pytest.importorskip("cv2")
    from torch_conv.compat import cv2 as ours

    noise = make_image((400, 401), torch.uint8).numpy()

    def apart(name, size):
        levels = np.abs(getattr(ours, name)(noise, *size).astype(int) - getattr(cv2, name)(noise, *size))
        assert levels.max() <= 1
        return levels.mean()

    assert round(100 * apart("GaussianBlur", [(3, 3), 0])) == 3
    assert all(apart("GaussianBlur", [(size, size), 0]) < 1e-3 for size in (7, 9, 15))
    assert apart("blur", [(3, 3)]) == 0
    assert round(100 * apart("blur", [(4, 4)])) == 9 or int(cv2.__version__.split(".")[0]) < 5
    negative = np.full((5, 5), -3, np.int16)
    assert not ours.boxFilter(negative, ours.CV_8U, (3, 3)).any()


def test_differences_from_causal_conv1d():
    from torch_conv.compat.causal_conv1d import causal_conv1d_fn

    x, w = make_image((2, C, 9), torch.float64).requires_grad_(), make_window((C, 6), torch.float64).requires_grad_()
    before = make_image((2, C, 5), torch.float64).requires_grad_()
    packed = torch.arange(9, dtype=torch.int32).div(4, rounding_mode="floor").expand(2, 9).contiguous()
    for options in ({"initial_states": before}, {"seq_idx": packed}):
        causal_conv1d_fn(x, w, activation="silu", **options).sum().backward()
    assert all(t.grad.any() for t in (x, w, before))


def snippets(page, language):
    """The page's blocks in this language, in order; "" are those that name none."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def named(pages):
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages]


@pytest.fixture
def with_photo(tmp_path, monkeypatch):
    """A folder that holds photo.jpg only."""
    image = pytest.importorskip("torchvision.io")
    image.write_jpeg(make_image((3, 60, 80), torch.uint8), str(tmp_path / "photo.jpg"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", named(page for page in PAGES if snippets(page, "python")))
def test_python_snippets(page, with_photo, monkeypatch):
    """The snippets run one after the other; those that torchrun starts run under torchrun.

    torch.compile traces and runs, without a compiler: Inductor, which takes half a minute, has tests/test_compile.py.
    """
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    scope = {"__name__": "snippets"}
    for number, snippet in enumerate(snippets(page, "python")):
        if snippet.startswith("# torchrun"):
            run_under_torchrun(snippet, with_photo)
        else:
            name = f"{page.name}, snippet {number}"
            linecache.cache[name] = (len(snippet), None, snippet.splitlines(True), name)  # TorchScript reads sources
            exec(compile(snippet, name, "exec", dont_inherit=True), scope)


def run_under_torchrun(snippet, folder):
    words = shlex.split(snippet.splitlines()[0].removeprefix("# torchrun"))
    (folder / words[-1]).write_text(snippet)
    environment = os.environ | {"PYTHONPATH": PACKAGE, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_cpp_snippets_are_the_example():
    """Word by word: tests/test_examples.py compiles it and runs it."""
    sources = " ".join(path.read_text() for path in sorted((ROOT / "examples" / "cpp").glob("*.[ch]*")))
    statements = [
        line for page in PAGES for text in snippets(page, "cpp") for line in text.split(";\n") if line.strip()
    ]
    assert statements
    for statement in statements:
        assert " ".join(statement.split()) in " ".join(sources.split()), statement


def test_commands(with_photo):
    """`make X` names a target, and `torch-conv X` runs; of those that measure the options are looked at."""
    targets = set(re.findall(r"^([a-z_]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    lines = {line for page in PAGES for text in snippets(page, "") for line in text.splitlines()}
    for line in sorted(line for line in lines if line.startswith(("make ", "torch-conv "))):
        words = shlex.split(line, comments=True)
        if words[:1] == ["make"]:
            assert {word for word in words[1:] if re.fullmatch("[a-z_]+", word)} <= targets, line
        if words[:1] == ["torch-conv"]:
            if words[1] in ("demo", "bench", "report", "cache"):  # they take long, want results, or delete
                assert build_parser(words[1:]).parse_args(words[1:]), line
                continue
            command = [sys.executable, "-m", "torch_conv", *words[1:]]
            environment = os.environ | {"PYTHONPATH": PACKAGE}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{line}: {done.stderr}"


def test_default_borders():
    """The documented defaults: reflect, except for volumes, sobel and spatial_gradient."""
    default = {
        name: signature.parameters["border_type"].default
        for name in torch_conv.functional.__all__
        if "border_type" in (signature := inspect.signature(getattr(torch_conv, name))).parameters
    }
    replicate = {name for name in default if name.endswith(("3d", "3d_separable"))} | {"sobel", "spatial_gradient"}
    assert {name for name, border in default.items() if border == "replicate"} == replicate
    assert {border for name, border in default.items() if name not in replicate} <= {"reflect", "constant"}


def test_the_readme_is_short():
    assert len(PAGES[0].read_text().splitlines()) <= 150


def test_the_extras_are_on_the_page_of_the_installation():
    (lists,) = re.findall(
        r"^\[tool.setuptools.dynamic.optional-dependencies\]\n(.*?)\n\n",
        (ROOT / "pyproject.toml").read_text(),
        re.DOTALL | re.MULTILINE,
    )
    (table,) = re.findall(r"^\| extra .*?\n\n", (ROOT / "docs" / "install.md").read_text(), re.DOTALL | re.MULTILINE)
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == re.findall(r"^(\w+) = ", lists, re.MULTILINE)


def test_no_figure_is_written_by_hand():
    """Sizes and times that a build or a machine decides: tables that programs write have them."""
    for page in (PAGES[0], ROOT / "docs" / "install.md"):
        text = re.sub(r"<!-- headline: begin.*?headline: end -->", "", page.read_text(), flags=re.DOTALL)
        assert not re.findall(r"\d+(?:\.\d+)? (?:[KMG]i?B|us|ms|s|seconds?|minutes?)\b|\b\d+x\d+ on\b", text), page


def test_the_tables_are_up_to_date():
    """The check needs neither torch nor a built module."""
    script = (
        "import runpy, sys; sys.modules['torch'] = None; sys.argv[1:] = ['--check']; sys.path.insert(0, 'benchmarks')"
    )
    command = [sys.executable, "-c", f"{script}; runpy.run_path('benchmarks/report.py', run_name='__main__')"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_model_of_several_machines_is_its_table(capsys):
    page = ROOT / "docs" / "multi_node.md"
    model = next(code for code in snippets(page, "python") if "def efficiency" in code)
    assert f"shard > {_operators._LARGE['cuda'] >> 20} << 20" in model
    exec(model, {})
    said = re.findall(r"\d+ %", capsys.readouterr().out)
    rows = re.findall(r"^\| \d+² .* us \| (\d+ %) \| (\d+ %) \|$", page.read_text(), re.MULTILINE)
    assert said and said == [figure for row in rows for figure in row]


def anchors(page):
    """The anchor of a heading, as GitHub and Python-Markdown make it."""
    titles = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    )
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def from_outside():
    """The files that docs/site_hooks.py makes pages. The test parses it, because its imports need not be installed."""
    (names,) = re.findall(
        r"^OUTSIDE = (\{.*?^\})", (ROOT / "docs" / "site_hooks.py").read_text(), re.DOTALL | re.MULTILINE
    )
    return [ROOT / name for name in ast.literal_eval(names)]


@pytest.mark.parametrize("page", named(dict.fromkeys([*PAGES, *OTHERS, *from_outside()])))
def test_links(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        place = page.parent / name if name else page
        assert place.exists(), target
        assert not anchor or anchor in anchors(place), target


def test_every_function_has_a_place_on_a_page():
    documented = {
        name for page in PAGES for name in re.findall(r"^::: torch_conv\.(\S+)$", page.read_text(), re.MULTILINE)
    }
    assert set(torch_conv.functional.__all__) <= documented
    assert {f"nn.{name}" for name in torch_conv.nn.__all__} <= documented
    readme = PAGES[0].read_text()
    assert all(f"`{name}`" in readme for name in torch_conv.functional.__all__)
