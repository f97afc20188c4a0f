"""Files that commands write: whole or not at all, never over another without --force, and one sentence otherwise."""

import errno
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
import torch
from command_line import prog, refused, run

import torch_conv
from torch_conv.bench.files import write_file
from torch_conv.bench.usage import UsageError

np = pytest.importorskip("numpy")
pil = pytest.importorskip("PIL.Image")
pytest.importorskip("cv2")
pytest.importorskip("tifffile")
pytest.importorskip("rich")

ROOT = Path(torch_conv.__file__).parent.parent
BENCH = ["bench", "volume", "--device", "cpu", "--iterations", "1", "--warmup-iterations", "0"]
BENCH += [f"--{name}={n}" for name, n in (("width", 8), ("height", 8), ("depth", 4))]
BENCH += [f"--kernel-radius-{axis}=1" for axis in "xyz"]
SCALING = ["bench", "scaling", "--sizes", "16", "--devices", "cpu,cpu"]


@pytest.fixture
def picture(tmp_path):
    pixels = np.random.default_rng(3).integers(0, 256, (40, 60, 3), np.uint8)
    pil.fromarray(pixels).save(tmp_path / "in.png")
    return tmp_path / "in.png"


@pytest.fixture
def stranger():
    """An open folder, and this process without root's powers over it."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    pil.fromarray(np.zeros((8, 8), np.uint8)).save(folder / "in.png")
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield folder
    os.seteuid(user)
    shutil.rmtree(folder)


def filtering(picture, out, *options):
    return ["filter", picture, out, "--filter", "box", "--device", "cpu", *options]


def commands(picture, out):
    return {"filter": filtering(picture, out), "volume": [*BENCH, "--json", out], "scaling": [*SCALING, "--json", out]}


def command(*arguments, **options):
    """A real process, as a shell runs it."""
    return subprocess.run(
        [sys.executable, "-m", "torch_conv", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        **options,
    )


@pytest.mark.parametrize("way", ["filter", "volume", "scaling"])
def test_existing_files_stay_without_force(picture, capsys, way):
    out = picture.with_name("out.png")
    out.write_text("precious")
    arguments = commands(picture, out)[way]
    said = refused(capsys, *arguments)
    assert said == f"{prog(arguments)}: {out} exists already; --force replaces it"
    assert out.read_text() == "precious"
    out.chmod(0o640)
    assert run(*arguments, "--force") == 0
    assert out.read_bytes()[:1] == (b"\x89" if way == "filter" else b"{")
    assert stat.S_IMODE(out.stat().st_mode) == 0o640
    assert sorted(p.name for p in picture.parent.iterdir()) == ["in.png", "out.png"]


def test_a_picture_may_become_its_own_result(picture):
    before = np.asarray(pil.open(picture))
    assert run(*filtering(picture, picture, "--force")) == 0
    expected = torch_conv.box_blur(torch.tensor(before).permute(2, 0, 1), 9).permute(1, 2, 0)
    np.testing.assert_array_equal(np.asarray(pil.open(picture)), expected.numpy())


def test_a_new_file_has_the_usual_permissions(picture):
    out = picture.with_name("out.png")
    mask = os.umask(0o027)
    try:
        assert run(*filtering(picture, out)) == 0
    finally:
        os.umask(mask)
    assert stat.S_IMODE(out.stat().st_mode) == 0o640


def test_a_link_stays_a_link(picture):
    (picture.parent / "far").mkdir()
    link, target = picture.with_name("out.png"), picture.parent / "far" / "result.png"
    link.symlink_to(target)
    assert run(*filtering(picture, link)) == 0
    assert link.is_symlink()
    assert pil.open(target).size == (60, 40)


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        ("out.bmp", "the output must end in .png, .tif, .tiff, .jpg, .jpeg, got OUT"),
        ("folder.png", "OUT/in.png is a folder"),
        ("out", "the output must end in .png, .tif, .tiff, .jpg, .jpeg, got OUT"),
        ("nowhere/out.png", "there is no folder FOLDER/nowhere"),
        ("in.png/out.png", "there is no folder FOLDER/in.png"),
        (f"{'x' * 300}.png", "OUT cannot be written: file name too long"),
    ],
)
def test_outputs_that_cannot_be(picture, capsys, out, sentence):
    (picture.parent / "folder.png" / "in.png").mkdir(parents=True)
    before = sorted(picture.parent.rglob("*"))
    out = picture.parent / out
    said = refused(capsys, *filtering(picture, out))
    sentence = sentence.replace("OUT", str(out)).replace("FOLDER", str(picture.parent))
    assert said == f"torch-conv filter: {sentence}"
    assert sorted(picture.parent.rglob("*")) == before


@pytest.mark.parametrize(
    ("locked", "mode", "arguments", "sentence"),
    [
        ("in.png", 0, filtering("in.png", "out.png"), "in.png cannot be read: permission denied"),
        (".", 0o555, filtering("in.png", "out.png"), "out.png cannot be written: permission denied"),
        ("old.png", 0o444, filtering("in.png", "old.png", "--force"), "old.png cannot be written: permission denied"),
        ("in", 0, filtering("in.png", "in/out.png"), "in/out.png cannot be written: permission denied"),
        (".", 0o555, [*BENCH, "--json", "out.json"], "out.json cannot be written: permission denied"),
        (".", 0o555, ["bench", "ladder", "--figures", "new"], "new cannot be written: permission denied"),
        (".", 0o555, ["demo", "--output", "new/deep"], "new/deep cannot be written: permission denied"),
        ("in", 0o555, ["demo", "--output", "in"], "in cannot be written: permission denied"),
    ],
)
def test_permissions(stranger, monkeypatch, capsys, locked, mode, arguments, sentence):
    monkeypatch.chdir(stranger)
    Path("in").mkdir()
    Path("old.png").write_text("precious")
    user = os.geteuid()
    before = sorted(stranger.iterdir())
    os.seteuid(os.getuid())
    Path(locked).chmod(mode)
    os.seteuid(user)
    assert refused(capsys, *arguments) == f"{prog(arguments)}: {sentence}"
    os.seteuid(os.getuid())
    assert sorted(stranger.iterdir()) == before
    assert Path("old.png").read_text() == "precious"


@pytest.mark.parametrize("arguments", [["demo", "--output"], ["bench", "ladder", "--device", "cpu", "--figures"]])
def test_a_file_is_no_folder(picture, capsys, arguments):
    for name in (picture, picture / "deep"):
        said = refused(capsys, *arguments, name)
        assert said == f"{prog(arguments)}: {name} cannot be a folder: {picture} is a file"


def full(descriptor):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def interrupt(descriptor):
    raise KeyboardInterrupt


@pytest.mark.parametrize("old", [False, True], ids=["new", "over another"])
@pytest.mark.parametrize("way", ["filter", "volume", "scaling"])
def test_a_full_disk_leaves_nothing_behind(picture, monkeypatch, capsys, way, old):
    out = picture.with_name("out.png")
    if old:
        out.write_text("precious")
    before = {p: p.read_bytes() for p in picture.parent.iterdir()}
    arguments = {
        "filter": filtering(picture, out),
        "volume": [*BENCH, "--json", out],
        "scaling": [*SCALING, "--json", out],
    }
    monkeypatch.setattr(os, "fsync", full)
    assert run(*arguments[way], "--force") == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == f"{prog(arguments[way])}: {out} cannot be written: no space left on device"
    assert {p: p.read_bytes() for p in picture.parent.iterdir()} == before


def test_an_interruption_leaves_nothing_behind(picture, monkeypatch, capsys):
    monkeypatch.setattr(os, "fsync", interrupt)
    assert run(*filtering(picture, picture.with_name("out.png"))) == 130
    assert capsys.readouterr().err == "torch-conv filter: interrupted\n"
    assert list(picture.parent.iterdir()) == [picture]


ENDING = """
import os, signal, sys
from torch_conv_cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes its background jobs ignore it
os.fsync = lambda descriptor: os.kill(os.getpid(), signal.{name})
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("name", "old", "status", "sentence"),
    [
        ("SIGTERM", True, -15, ""),
        ("SIGHUP", False, -1, ""),
        ("SIGINT", True, 130, "torch-conv filter: interrupted\n"),
    ],
)
def test_a_signal_leaves_nothing_behind(picture, name, status, sentence, old):
    """The signal arrives when the temporary file has its bytes."""
    out = picture.with_name("out.png")
    if old:
        out.write_text("precious")
    before = {p: p.read_bytes() for p in picture.parent.iterdir()}
    done = subprocess.run(
        [sys.executable, "-c", ENDING.format(name=name), *filtering(picture, out, "--force")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (status, "", sentence)
    assert {p: p.read_bytes() for p in picture.parent.iterdir()} == before


def test_signals_keep_the_handlers_of_a_program(tmp_path):
    kept = []
    handler = signal.signal(signal.SIGTERM, lambda number, frame: kept.append(number))
    try:
        write_file(tmp_path / "out", b"1")
        signal.raise_signal(signal.SIGTERM)
        assert kept == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, handler)
    thread = threading.Thread(target=write_file, args=(tmp_path / "by a thread", b"2"))  # it may set no handler
    thread.start()
    thread.join()
    assert (tmp_path / "by a thread").read_bytes() == b"2"


@pytest.mark.parametrize("arguments", [["demo", "--output"], ["bench", "ladder", "--quick", "--figures"]])
def test_a_folder_on_a_full_disk(tmp_path, monkeypatch, capsys, arguments):
    pytest.importorskip("matplotlib")
    pytest.importorskip("skimage")
    from torch_conv.bench.ladder import tables as ladder_tables
    from torch_conv.cli import ladder

    rows = {name: [{"size": 8, "k": 3, "cpu_ms": 1.0}] for name in ("size", "window", "fused")}
    monkeypatch.setattr(ladder_tables, "studies", lambda cuda, quick: [])
    monkeypatch.setattr(ladder, "measure", lambda benchmark, bench, wanted: rows)
    monkeypatch.setattr(os, "fsync", full)
    assert run(*arguments, tmp_path / "new", "--device", "cpu") == 2
    said = capsys.readouterr().err.splitlines()[-1]
    first = "ladder_size.png" if arguments[0] == "bench" else "astronaut_gaussian_31x31.png"
    expected = f"{tmp_path / 'new' / first} cannot be written: no space left on device"
    assert said == f"{prog(arguments)}: {expected}"
    assert list((tmp_path / "new").iterdir()) == []


def test_a_system_that_stops_a_file_half_way(picture):
    """The limit on a file's size is met after its first bytes, as a disk's end would be."""
    done = command(
        *filtering("in.png", "out.tif"),
        cwd=picture.parent,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "torch-conv filter: out.tif cannot be written: file too large\n"
    assert list(picture.parent.iterdir()) == [picture]


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="this system has no /dev/full")
def test_devices_are_written_to_and_never_replaced(capsys):
    assert run(*BENCH, "--json", "/dev/null") == 0
    capsys.readouterr()
    assert run(*BENCH, "--json", "/dev/full") == 2
    said = capsys.readouterr().err
    assert said == "torch-conv bench volume: /dev/full cannot be written: no space left on device\n"
    assert Path("/dev/null").is_char_device()
    assert Path("/dev/full").is_char_device()


@pytest.mark.parametrize("out", ["/dev/stdout", "/proc/self/fd/1"])
def test_a_file_open_for_append_keeps_its_lines(tmp_path, out):
    log = tmp_path / "log"
    log.write_text("EARLIER\n")
    with log.open("a") as file:
        assert command(*BENCH, "--json", out, stdout=file).returncode == 0
    first, *others = log.read_text().splitlines()
    assert first == "EARLIER"
    assert json.loads("\n".join(others[others.index("{") : others.index("}") + 1]))["benchmark"] == "volume"


def test_a_descriptor_that_is_not_open(capsys):
    said = refused(capsys, *BENCH, "--json", "/dev/fd/999")
    assert said == "torch-conv bench volume: /dev/fd/999 cannot be written: bad file descriptor"


def test_a_pipe_takes_the_json(tmp_path, capsys):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["timeout", "20", "cat", pipe], stdout=subprocess.PIPE) as reader:
        assert run(*BENCH, "--json", pipe) == 0
        assert json.loads(reader.communicate()[0])["benchmark"] == "volume"
    assert pipe.is_fifo()


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="this system has no /dev/full")
def test_standard_output_on_a_full_disk():
    with open("/dev/full", "w") as disk:
        done = command("info", stdout=disk)
    assert done.returncode == 2
    assert done.stderr == "torch-conv info: standard output cannot be written: no space left on device\n"


def test_a_reader_that_leaves_is_no_error_to_speak_of():
    read, write = os.pipe()
    os.close(read)
    done = command("info", stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


def test_names_that_no_terminal_can_show(picture):
    name = os.fsdecode(b"\xff.png")
    done = command(*filtering("in.png", name), cwd=picture.parent, stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "\\udcff.png: box, 60 x 40 pixels, RGB, 8 bits, on cpu\n"
    assert (picture.parent / name).is_file()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
        torch.OutOfMemoryError("box_blur: there is not enough memory"),
    ],
    ids=["Python", "a GPU", "torch", "a kernel of the CPU"],
)
def test_too_little_memory_is_one_sentence(picture, monkeypatch, capsys, error):
    def box_blur(*args, **kwargs):
        raise error

    monkeypatch.setattr(torch_conv, "box_blur", box_blur)
    said = refused(capsys, *filtering(picture, picture.with_name("out.png")))
    assert said == "torch-conv filter: there is not enough memory"
    assert list(picture.parent.iterdir()) == [picture]


def test_a_library_that_is_missing_is_named(picture, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    said = refused(capsys, *filtering(picture, picture.with_name("out.png")))
    assert said == "torch-conv filter: Pillow is not installed: pip install 'torch-conv[cli]'"


def test_a_file_that_appears_meanwhile_is_not_overwritten(picture, monkeypatch, capsys):
    out = picture.with_name("out.png")
    plain = torch_conv.box_blur

    def box_blur(*args, **kwargs):
        out.write_bytes(b"somebody's")
        return plain(*args, **kwargs)

    monkeypatch.setattr(torch_conv, "box_blur", box_blur)
    assert refused(capsys, *filtering(picture, out)) == f"torch-conv filter: {out} exists already; --force replaces it"
    assert out.read_bytes() == b"somebody's"
    assert sorted(picture.parent.iterdir()) == [picture, out]
    assert run(*filtering(picture, out, "--force")) == 0
    assert out.read_bytes() != b"somebody's"


def test_a_file_system_without_hard_links(picture, monkeypatch, capsys):
    def link(*args, **kwargs):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    out = picture.with_name("out.png")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda part, target: full(part))
        said = refused(capsys, *filtering(picture, out))
        assert said == f"torch-conv filter: {out} cannot be written: no space left on device"
    assert list(picture.parent.iterdir()) == [picture]
    assert run(*filtering(picture, out)) == 0
    assert sorted(picture.parent.iterdir()) == [picture, out]


def test_a_name_is_reserved_without_hard_links(tmp_path, monkeypatch):
    out, opened = tmp_path / "out", os.open

    def link(*args, **kwargs):
        raise OSError(errno.EPERM, "Operation not permitted")

    def late(path, *args):
        out.write_text("somebody's")  # at the last moment
        return opened(path, *args)

    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(os, "open", late)
    with pytest.raises(UsageError, match="out exists already; --force replaces it"):
        write_file(out, b"ours", force=False)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["somebody's"]


def test_a_signal_before_all_handlers_are_there(tmp_path, monkeypatch):
    install, sent = signal.signal, []

    def at_once(number, handler):
        install(number, handler)
        if number == signal.SIGTERM and callable(handler) and not sent:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(signal, "signal", at_once)
    monkeypatch.setattr(signal, "raise_signal", sent.append)
    with pytest.raises(BaseException, match="^$"):
        write_file(tmp_path / "out", b"1")
    assert sent == [signal.SIGTERM]
    assert {signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)} == {signal.SIG_DFL}
    assert list(tmp_path.iterdir()) == []


def test_names_of_files_do_not_steer_the_terminal(picture, capsys):
    name = "a\x1b[2Jb\n.png"
    assert run(*filtering(picture, picture.with_name(name))) == 0
    assert capsys.readouterr().out.endswith("/a\\x1b[2Jb\\n.png: box, 60 x 40 pixels, RGB, 8 bits, on cpu\n")
    for arguments in (
        filtering(picture.with_name("\x1b[2J.png"), picture.with_name("out.png")),
        [*filtering(picture, picture.with_name("out.png")), "--device", "\x1b[2J"],
        ["filter", "--\x1b[2J"],
        ["bench", "\x1b[2J"],
        ["report", picture.with_name("\x1b[2J.json")],
    ):
        assert "\x1b" not in refused(capsys, *arguments)


@pytest.mark.parametrize("arguments", [["info"], ["bench", "filter2d", "--list"]])
def test_without_standard_output(arguments):
    done = command(*arguments, stdout=None, preexec_fn=lambda: os.close(1))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.endswith(": standard output cannot be written: bad file descriptor\n")
