"""`torch-conv filter` on several inputs, from standard input and to standard output."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from command_line import refused, run

import torch_conv
from torch_conv import kernels

np = pytest.importorskip("numpy")
pil = pytest.importorskip("PIL.Image")
tifffile = pytest.importorskip("tifffile")
pytest.importorskip("cv2")
pytest.importorskip("rich")

ROOT = Path(torch_conv.__file__).parent.parent
PIXELS = np.random.default_rng(3).integers(0, 256, (20, 30, 3), np.uint8)
BOX = ["--filter", "box", "--device", "cpu"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of pictures, which is also the current one."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.png", "b.jpg", "c.tif", "d.gif", "e.webp"):
        pil.fromarray(PIXELS).save(name)
    Path("text.png").write_text("no image")
    return tmp_path


def named(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def filtered(size=9):
    return torch_conv.box_blur(torch.from_numpy(PIXELS).permute(2, 0, 1), size).permute(1, 2, 0).numpy()


def process(*arguments, **options):
    """A real process, as a shell runs it."""
    return subprocess.run(
        [sys.executable, "-m", "torch_conv", "filter", *map(str, arguments), *BOX],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        check=False,
        **options,
    )


def test_several_pictures_go_to_a_folder(folder, capsys):
    assert run("filter", "a.png", "b.jpg", "c.tif", "d.gif", "e.webp", "new/deep/", *BOX) == 0
    assert named("new/deep") == ["a.png", "b.jpg", "c.tif", "d.png", "e.png"]
    said = capsys.readouterr()
    about = "box, 30 x 20 pixels, RGB, 8 bits, on cpu"
    assert said.out.splitlines() == [f"new/deep/{name}: {about}" for name in named("new/deep")]
    assert said.err == ""
    for name in ("a.png", "c.tif"):
        np.testing.assert_array_equal(np.asarray(pil.open(f"new/deep/{name}")), filtered())
    assert [pil.open(f"new/deep/{name}").format for name in ("b.jpg", "c.tif", "d.png")] == ["JPEG", "TIFF", "PNG"]


@pytest.mark.parametrize("out", ["there", "there/", "new/"])
def test_one_picture_goes_to_a_folder(folder, out):
    Path("there").mkdir()
    assert run("filter", "a.png", out, *BOX) == 0
    assert named(out) == ["a.png"]


def test_all_pictures_of_a_folder_take_one_format(folder):
    assert run("filter", "b.jpg", "c.tif", "new/", "--format", "png", *BOX) == 0
    assert named("new") == ["b.png", "c.png"]
    assert {pil.open(f"new/{name}").format for name in named("new")} == {"PNG"}


def test_content_gives_a_name_its_end(folder):
    for name, other in (("a.png", "a"), ("b.jpg", "b.jfif"), ("c.tif", "c.stk")):
        Path(name).rename(other)
    assert run("filter", "a", "b.jfif", "c.stk", "new/", *BOX) == 0
    assert named("new") == ["a.png", "b.jpg", "c.tif"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a.png", "b.jpg", "new"], "there is no folder new: new/ makes it"),
        (["a.png", "b.jpg", "c.tif"], "c.tif cannot be a folder: c.tif is a file"),
        (["a.png", "c.tif/"], "c.tif cannot be a folder: c.tif is a file"),
        (["a.png", "b.jpg", "-"], "the output of 2 inputs must be a folder, got -"),
        (["a.png", "there/a.png", "new/"], "a.png and there/a.png would both become new/a.png"),
        (["a.png", "a.gif", "new/"], "a.png and a.gif would both become new/a.png"),
        (["a.png", "b.jpg", "there"], "there/a.png exists already; --force replaces it"),
        (["b.jpg", "a.png", "there"], "there/a.png exists already; --force replaces it"),
        (["a.png", "."], "a.png exists already; --force replaces it"),
        (["-", "there"], "standard input has no name for a file: the output must be a file or -, got there"),
        (["a.png", "out.png", "--format", "jpg"], "--format jpg does not agree with the output out.png"),
    ],
)
def test_outputs_are_checked_before_any_work(folder, capsys, arguments, sentence):
    Path("there").mkdir()
    Path("there/a.png").write_text("precious")
    before = sorted(folder.rglob("*"))
    assert refused(capsys, "filter", *arguments, *BOX) == f"torch-conv filter: {sentence}"
    assert sorted(folder.rglob("*")) == before
    assert Path("there/a.png").read_text() == "precious"


def test_pictures_may_replace_themselves(folder):
    assert run("filter", "a.png", "c.tif", ".", "--force", *BOX) == 0
    for name in ("a.png", "c.tif"):
        np.testing.assert_array_equal(np.asarray(pil.open(name)), filtered())


def test_bad_inputs_are_named_and_the_others_filtered(folder, capfd):
    assert run("filter", "missing.png", "a.png", "text.png", "c.tif", "new/", *BOX) == 2
    assert capfd.readouterr().err.splitlines() == [
        "torch-conv filter: there is no file missing.png",
        "torch-conv filter: text.png is not an image that can be read (PNG, JPEG, GIF, WebP or TIFF)",
        "torch-conv filter: 2 of 4 files were not filtered",
    ]
    assert named("new") == ["a.png", "c.tif"]


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="this system has no /dev/full")
def test_a_progress_bar_on_a_full_disk_is_lost(folder, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich draws on what is no terminal
    with contextlib.suppress(OSError), open("/dev/full", "w") as disk:
        monkeypatch.setattr(sys, "stderr", disk)
        assert run("filter", "a.png", "c.tif", "new/", *BOX) == 0
    assert named("new") == ["a.png", "c.tif"]


def test_a_bad_option_is_named_once(folder, capsys):
    said = refused(capsys, "filter", "a.png", "c.tif", "new/", *BOX, "--filter", "gaussian", "--size", "4")
    assert said == "torch-conv filter: gaussian_blur2d: kernel_size must be odd and at least 1, got (4, 4)"
    assert not Path("new").exists()


@contextlib.contextmanager
def standard_input(content):
    """This process with those bytes in its standard input."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        before = os.dup(0)
        os.dup2(file.fileno(), 0)
        try:
            yield
        finally:
            os.dup2(before, 0)
            os.close(before)


@pytest.mark.parametrize(("source", "form"), [("a.png", "PNG"), ("b.jpg", "JPEG"), ("c.tif", "TIFF"), ("d.gif", "PNG")])
def test_a_pipe_keeps_the_format(folder, capsysbinary, source, form):
    with standard_input(Path(source).read_bytes()):
        assert run("filter", "-", "-", *BOX) == 0
    said = capsysbinary.readouterr()
    assert said.err == b""
    picture = pil.open(io.BytesIO(said.out))
    assert picture.format == form
    if source in ("a.png", "c.tif"):
        np.testing.assert_array_equal(np.asarray(picture), filtered())


@pytest.mark.parametrize(("form", "expected"), [("png", "PNG"), ("tif", "TIFF"), ("jpg", "JPEG")])
@pytest.mark.parametrize("out", ["-", "/dev/stdout"])
def test_the_format_of_a_pipe(folder, capsysbinary, out, form, expected):
    assert run("filter", "a.png", out, "--format", form, *BOX) == 0
    assert pil.open(io.BytesIO(capsysbinary.readouterr().out)).format == expected


def test_a_pipe_into_a_file(folder, capsys):
    with standard_input(Path("a.png").read_bytes()):
        assert run("filter", "-", "out.png", *BOX) == 0
    assert capsys.readouterr().out == "out.png: box, 30 x 20 pixels, RGB, 8 bits, on cpu\n"
    np.testing.assert_array_equal(np.asarray(pil.open("out.png")), filtered())


def test_a_file_may_be_named_as_standard_input_is(folder, capsysbinary):
    Path("a.png").rename("-")
    with standard_input(b"no image"):
        assert run("filter", "./-", "out.png", *BOX) == 0
    Path("-").unlink()
    assert run("filter", "out.png", "./-", "--format", "png", *BOX) == 0
    assert capsysbinary.readouterr().out.splitlines()[-1] == b"-: box, 30 x 20 pixels, RGB, 8 bits, on cpu"
    assert pil.open("-").format == "PNG"


def test_a_file_behind_standard_output_is_not_replaced(folder):
    with open("out.png", "wb") as file:
        assert process("-", "/dev/stdout", input=Path("a.png").read_bytes(), stdout=file).returncode == 0
    np.testing.assert_array_equal(np.asarray(pil.open("out.png")), filtered())
    with open("out.png", "r+b") as file:
        assert run("filter", "a.png", f"/dev/fd/{file.fileno()}", "--format", "tif", *BOX) == 0
        assert pil.open(file).format == "TIFF"


def test_a_named_pipe_takes_the_picture(folder):
    os.mkfifo("pipe")
    with subprocess.Popen(["timeout", "20", "cat", "pipe"], stdout=subprocess.PIPE) as reader:
        assert run("filter", "a.png", "pipe", "--format", "png", *BOX) == 0
        picture = pil.open(io.BytesIO(reader.communicate()[0]))
    np.testing.assert_array_equal(np.asarray(picture), filtered())
    assert Path("pipe").is_fifo()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "standard input is empty"),
        (b"no image", "standard input is not an image that can be read (PNG, JPEG, GIF, WebP or TIFF)"),
        (None, "standard input is damaged or cut short"),  # its writer ended early
    ],
)
def test_standard_input_that_cannot_be_read(folder, capfd, content, sentence):
    with standard_input(Path("a.png").read_bytes()[:-100] if content is None else content):
        assert refused(capfd, "filter", "-", "-", *BOX) == f"torch-conv filter: {sentence}"


def test_without_standard_input(folder):
    done = process("-", "-", stdout=subprocess.PIPE, preexec_fn=lambda: os.close(0))
    said = "torch-conv filter: standard input cannot be read: bad file descriptor\n"
    assert (done.returncode, done.stdout, done.stderr.decode()) == (2, b"", said)


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="this system has no /dev/full")
def test_a_picture_to_a_full_disk(folder):
    with open("/dev/full", "wb") as disk:
        done = process("a.png", "-", stdout=disk)
    said = "torch-conv filter: standard output cannot be written: no space left on device\n"
    assert (done.returncode, done.stderr.decode()) == (2, said)


def test_a_reader_that_leaves_early(folder):
    read, write = os.pipe()
    os.close(read)
    done = process("a.png", "-", stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_terminal_shows_no_bytes(folder, monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    said = refused(capsys, "filter", "a.png", "-", *BOX)
    assert said == "torch-conv filter: standard output is a terminal: the output must be a file or a pipe"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["gaussian"], lambda x: torch_conv.gaussian_blur2d(x, 9, kernels.default_sigma(9))),
        (["gaussian", "--sigma", "2"], lambda x: torch_conv.gaussian_blur2d(x, sigma=2.0)),
        (["gaussian", "--sigma", "1,2"], lambda x: torch_conv.gaussian_blur2d(x, None, (1.0, 2.0))),
        (["gaussian", "--size", "5"], lambda x: torch_conv.gaussian_blur2d(x, 5, kernels.default_sigma(5))),
        (["gaussian", "--size", "3,7"], lambda x: torch_conv.gaussian_blur2d(x, (3, 7), (0.8, 1.4))),
        (["box", "--size", "2,7"], lambda x: torch_conv.box_blur(x, (2, 7))),
        (["unsharp"], lambda x: torch_conv.unsharp_mask(x, 9, kernels.default_sigma(9))),
        (["unsharp", "--sigma", "2", "--amount", "0.5"], lambda x: torch_conv.unsharp_mask(x, None, 2.0, amount=0.5)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_size_sigma_and_amount(folder, arguments, expected):
    assert run("filter", "a.png", "out.png", "--device", "cpu", "--filter", *arguments) == 0
    image = torch.from_numpy(PIXELS).permute(2, 0, 1)
    np.testing.assert_array_equal(np.asarray(pil.open("out.png")), expected(image).permute(1, 2, 0).numpy())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["box", "--amount", "1"], "--amount has no meaning for box"),
        (["gaussian", "--sigma", "-1"], "--sigma must be finite and greater than 0, got -1"),
        (["gaussian", "--sigma", "2,inf"], "--sigma must be finite and greater than 0, got 2,inf"),
        (["gaussian", "--sigma", "1,2,3"], "--sigma must be Y,X or one number for both, got 1,2,3"),
        (["gaussian", "--amount", "1"], "--amount has no meaning for gaussian"),
        (["box", "--sigma", "1"], "--sigma has no meaning for box"),
        (["box", "--size", "3,5,7"], "--size must be Y,X or one number for both, got 3,5,7"),
        (["box", "--size", "3,"], "--size must be a whole number, got  (see torch-conv filter --help)"),
        (
            ["gaussian", "--sigma", "wide"],
            "--sigma must be a number, got wide (see torch-conv filter --help)",
        ),
        (
            ["unsharp", "--amount", "much"],
            "--amount must be a number, got much (see torch-conv filter --help)",
        ),
    ],
)
def test_options_that_are_refused(folder, capsys, arguments, sentence):
    said = refused(capsys, "filter", "missing.png", "out.png", "--device", "cpu", "--filter", *arguments)
    assert said == f"torch-conv filter: {sentence}"


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        ([], "IN, OUT, --filter"),
        (["a.png"], "OUT, --filter"),
        (["a.png", "out.png"], "--filter"),
        (["--filter", "box"], "IN, OUT"),
        (["a.png", "--filter", "box"], "OUT"),
    ],
)
def test_all_missing_arguments_are_named(folder, capsys, arguments, missing):
    said = refused(capsys, "filter", *arguments)
    assert said == f"torch-conv filter: {missing} must be given (see torch-conv filter --help)"
