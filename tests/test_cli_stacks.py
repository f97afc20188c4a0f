"""Pages of TIFF files through `torch-conv filter`: as a volume, as images, of integers and floating-point numbers."""

import os

import pytest
import torch
from command_line import refused, run, with_codecs

import torch_conv
from torch_conv.cli import _tiff

np = pytest.importorskip("numpy")
tifffile = pytest.importorskip("tifffile")
pytest.importorskip("cv2")

SHAPE = (5, 12, 17)
NUMBERS = np.random.default_rng(5).random((*SHAPE, 3))
DTYPES = ["uint8", "uint16", "int16", "float16", "float32", "float64"]


def pages_of(dtype, colours=1):
    scale = 1 if dtype.startswith("float") else np.iinfo(dtype).max
    pages = (NUMBERS * scale).astype(dtype)
    return pages[..., 0] if colours == 1 else pages


def stack(path, pages, **options):
    tifffile.imwrite(path, pages, photometric="rgb" if pages.shape[-1] == 3 else "minisblack", **options)
    return path


def through(path, *options):
    """The pages of the filtered file."""
    out = path.with_name("out.tif")
    assert run("filter", path, out, "--device", "cpu", "--force", *options) == 0
    return tifffile.imread(out)


def same(found, expected):
    expected = np.asarray(expected)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("colours", [1, 3])
def test_a_volume_is_filtered_along_z_too(tmp_path, dtype, colours):
    pages = pages_of(dtype, colours)
    found = through(stack(tmp_path / "in.tif", pages), "--filter", "gaussian", "--sigma", "1", "--stack", "volume")
    volume = torch.from_numpy(pages.copy())
    if colours == 1:
        same(found, torch_conv.gaussian_blur3d(volume, None, 1.0, "reflect"))
    else:
        same(found, torch_conv.gaussian_blur3d(volume.movedim(-1, 0), None, 1.0, "reflect").movedim(0, -1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("colours", [1, 3])
def test_images_are_filtered_each_for_itself(tmp_path, dtype, colours):
    pages = pages_of(dtype, colours)
    found = through(stack(tmp_path / "in.tif", pages), "--filter", "gaussian", "--sigma", "1", "--stack", "images")
    for page, filtered in zip(pages, found, strict=True):
        image = torch.from_numpy(page.copy())
        if colours == 1:
            same(filtered, torch_conv.gaussian_blur2d(image, None, 1.0))
        else:
            same(filtered, torch_conv.gaussian_blur2d(image.movedim(-1, 0), None, 1.0).movedim(0, -1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_page_keeps_its_numbers(tmp_path, dtype):
    page = pages_of(dtype)[0]
    expected = torch_conv.box_blur(torch.from_numpy(page.copy()), 3)
    same(through(stack(tmp_path / "in.tif", page), "--filter", "box", "--size", "3"), expected)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["gaussian", "--sigma", "0.5,1,2"],
            lambda x: torch_conv.gaussian_blur3d(x, None, (0.5, 1.0, 2.0), "reflect"),
        ),
        (
            ["gaussian", "--size", "3,5,7"],
            lambda x: torch_conv.gaussian_blur3d(x, (3, 5, 7), (0.8, 1.1, 1.4), "reflect"),
        ),
        (
            ["gaussian", "--size", "3,5,7", "--sigma", "2"],
            lambda x: torch_conv.gaussian_blur3d(x, (3, 5, 7), 2, "reflect"),
        ),
        (["box", "--size", "1,3,5"], lambda x: torch_conv.box_blur3d(x, (1, 3, 5), "reflect")),
        (["box"], lambda x: torch_conv.box_blur3d(x, 9, "reflect")),
        (
            ["box", "--size", "3", "--anchor", "0,1,2", "--border", "constant"],
            lambda x: torch_conv.box_blur3d(x, 3, "constant", anchor=(0, 1, 2)),
        ),
        (["identity", "--anchor", "0,1,1"], lambda x: torch.cat([x[1:], x[-2:-1]])),
        (["laplacian"], lambda x: torch_conv.filter3d(x, torch_conv.kernels.laplacian3d(), "reflect")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_filters_of_volumes(tmp_path, arguments, expected):
    pages = pages_of("float32")
    found = through(stack(tmp_path / "in.tif", pages), "--stack", "volume", "--filter", *arguments)
    same(found, expected(torch.from_numpy(pages.copy())))


def test_z_is_found_among_other_axes(tmp_path):
    """Pages of ImageJ are ordered by time, depth, channel."""
    pages = (np.random.default_rng(6).random((2, 4, 3, 6, 7)) * 65535).astype("uint16")
    for kind in ("imagej", "ome"):
        path = tmp_path / f"{kind}.tif"
        tifffile.imwrite(path, pages, metadata={"axes": "TZCYX"}, photometric="minisblack", **{kind: True})
        volumes = torch.from_numpy(pages.copy()).movedim(1, 2)
        expected = torch_conv.box_blur3d(volumes, 3, "reflect").movedim(2, 1)
        found = through(path, "--stack", "volume", "--filter", "box", "--size", "3")
        same(found, expected.reshape(24, 6, 7))


@pytest.mark.parametrize("axes", ["CYX", "TCYX"])
def test_channels_are_no_volume(tmp_path, capsys, axes):
    path = tmp_path / "in.tif"
    pages = np.zeros((2, 3, 6, 7)[-len(axes) :], "uint8")
    tifffile.imwrite(path, pages, metadata={"axes": axes}, photometric="minisblack", imagej=True)
    out = tmp_path / "out.tif"
    said = refused(capsys, "filter", path, out, "--filter", "box", "--device", "cpu", "--stack", "volume")
    assert said == f"torch-conv filter: {path} is no volume: its pages have the axes {axes[:-2]}, and none is Z"
    assert not out.exists()


def test_one_page_is_a_volume_of_one_plane(tmp_path):
    page = pages_of("uint16")[0]
    found = through(stack(tmp_path / "in.tif", page), "--filter", "gaussian", "--sigma", "2,1,1", "--stack", "volume")
    same(found, torch_conv.gaussian_blur3d(torch.from_numpy(page[None].copy()), None, (2.0, 1.0, 1.0), "reflect")[0])


def test_the_resolution_stays(tmp_path):
    path = stack(tmp_path / "in.tif", pages_of("uint8"), resolution=(250, 125), resolutionunit="CENTIMETER")
    for options in (["--stack", "images"], ["--stack", "volume"]):
        through(path, "--filter", "box", *options)
        with tifffile.TiffFile(tmp_path / "out.tif") as file:
            assert [page.resolution for page in file.pages] == [(250, 125)] * 5
            assert file.pages[0].resolutionunit == tifffile.RESUNIT.CENTIMETER
    tag = [(274, "H", 1, 6, True)]  # a picture that is turned
    path = stack(tmp_path / "on.tif", pages_of("uint8")[0], resolution=(250, 125), extratags=tag)
    through(path, "--filter", "box")
    with tifffile.TiffFile(tmp_path / "out.tif") as file:
        assert (file.pages[0].shape, file.pages[0].resolution) == ((17, 12), (125, 250))


def test_what_is_not_a_number_stays_in_its_window(tmp_path):
    page = pages_of("float32")[0].copy()
    page[6, 8] = np.nan
    found = through(stack(tmp_path / "in.tif", page), "--filter", "box", "--size", "3")
    assert np.isnan(found[5:8, 7:10]).all()
    assert np.isnan(found).sum() == 9


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "IN holds 5 pages: --stack volume or --stack images says what they are"),
        (["--stack", "images", "--format", "tif"], "--format tif does not agree with the output PNG"),
        (["--stack", "images"], "PNG cannot hold 5 pages: only TIFF can"),
        (
            ["--stack", "volume", "--filter", "unsharp"],
            "--filter of a volume must be box, gaussian, identity, laplacian, got unsharp",
        ),
        (["--stack", "volume", "--size", "3,5"], "--size must be Z,Y,X or one number for all, got 3,5"),
        (
            ["--stack", "volume", "--filter", "gaussian", "--sigma", "1.5,2"],
            "--sigma must be Z,Y,X or one number for all, got 1.5,2",
        ),
        (["--stack", "images", "--size", "3,5,7"], "--size must be Y,X or one number for both, got 3,5,7"),
        (["--stack", "volume", "--size", "3,0,5"], "--size must be at least 1, got 0"),
        (["--stack", "volume", "--filter", "laplacian", "--size", "3,3,5"], "--size of laplacian must be 3, got 3,3,5"),
        (
            ["--stack", "volume", "--filter", "gaussian", "--size", "4"],
            "gaussian_blur3d: kernel_size must be odd and at least 1, got (4, 4, 4)",
        ),
    ],
)
def test_stacks_that_are_refused(tmp_path, capsys, arguments, sentence):
    path, out = stack(tmp_path / "in.tif", pages_of("uint8")), tmp_path / "out.png"
    if sentence.startswith("gaussian_blur3d"):
        out = tmp_path / "out.tif"
    said = refused(capsys, "filter", path, out, "--device", "cpu", "--filter", "box", *arguments)
    sentence = sentence.replace("IN", str(path), 1).replace("PNG", str(out), 1)
    assert said == f"torch-conv filter: {sentence}"
    assert list(tmp_path.iterdir()) == [path]


def written_one_by_one(path, **options):
    """A list of pages, each behind its pixels."""
    with tifffile.TiffWriter(path) as file:
        for page in pages_of("uint16"):
            file.write(page, photometric="minisblack", **options)
    return path


@pytest.mark.parametrize("metadata", [{}, None], ids=["noted", "not noted"])
def test_pages_may_be_written_one_by_one(tmp_path, metadata):
    path = written_one_by_one(tmp_path / "in.tif", metadata=metadata)
    found = through(path, "--filter", "box", "--stack", "volume")
    same(found, torch_conv.box_blur3d(torch.from_numpy(pages_of("uint16").copy()), 9, "reflect"))


@pytest.mark.parametrize("compression", [None, "zlib", pytest.param("lzw", marks=with_codecs)])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.99])
def test_a_stack_that_is_cut_short_loses_no_page_in_silence(tmp_path, capfd, compression, share):
    path = written_one_by_one(tmp_path / "in.tif", compression=compression)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    out = tmp_path / "out.tif"
    capfd.readouterr()
    said = refused(capfd, "filter", path, out, "--device", "cpu", "--filter", "box", "--stack", "images")
    assert said == f"torch-conv filter: {path} is damaged, cut short or in a form that cannot be read"
    assert not out.exists()


def test_a_stack_that_memory_does_not_hold(tmp_path, monkeypatch, capsys):
    path = stack(tmp_path / "in.tif", np.zeros((64, 1024, 2048), "uint8"), compression="zlib")
    monkeypatch.setattr(_tiff, "free_memory", lambda: 100 * 2**20)
    monkeypatch.setattr(tifffile.TiffPageSeries, "asarray", lambda self: pytest.fail("the pixels were decoded"))
    said = refused(
        capsys, "filter", path, tmp_path / "out.tif", "--device", "cpu", "--filter", "box", "--stack", "images"
    )
    assert said == f"torch-conv filter: {path} must fit into the free memory of 0.0977 GiB, got 0.125 GiB of pixels"
    assert list(tmp_path.iterdir()) == [path]


def test_free_memory_is_a_part_of_all_memory():
    assert 0 < _tiff.free_memory() < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_the_line_about_a_stack(tmp_path, capsys):
    path, out = stack(tmp_path / "in.tif", pages_of("float32")), tmp_path / "out.tif"
    assert run("filter", path, out, "--device", "cpu", "--filter", "box", "--stack", "volume") == 0
    assert capsys.readouterr().out == f"{out}: box, 5 pages of 17 x 12 pixels, grey, float32, on cpu\n"
