"""Pictures that `torch-conv filter` reads and writes: 8 and 16 bits a channel, nothing lost without a sentence."""

import importlib
import struct
import sys
import zlib

import pytest
import torch
from command_line import refused, run, with_codecs

import torch_conv

np = pytest.importorskip("numpy")
cv2 = pytest.importorskip("cv2")
tifffile = pytest.importorskip("tifffile")
pil = pytest.importorskip("PIL.Image")
io = pytest.importorskip("torchvision.io")

H, W = 23, 37
DEEP = np.random.default_rng(7).integers(0, 65536, (H, W, 4), np.uint16)
BYTES = (DEEP >> 8).astype(np.uint8)
DEEP.flags.writeable = BYTES.flags.writeable = False


def png(path, array, kind, chunks=(), behind=()):
    """Writes a PNG of that kind of colours; libraries write only some of those that files come with."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    bits = 8 * array.itemsize
    rows = array.reshape(H, -1).astype(">u2" if bits == 16 else "u1")
    header = struct.pack(">IIBBBBB", W, H, bits, kind, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
    parts = [(b"IHDR", header), *chunks, (b"IDAT", pixels), *behind, (b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts))


def through(path, *options, name="identity", out="out.png"):
    """The filtered file, (H, W, C), as other libraries read it."""
    target = path.with_name(out)
    assert run("filter", path, target, "--device", "cpu", "--filter", name, *options) == 0
    if target.suffix == ".png":
        return io.read_image(str(target), io.ImageReadMode.UNCHANGED).permute(1, 2, 0).numpy()
    return np.atleast_3d(cv2.imread(str(target), cv2.IMREAD_UNCHANGED))[..., ::-1]


def same(found, expected):
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, np.atleast_3d(expected))


@pytest.mark.parametrize("out", ["out.png", "out.tif", "out.TIFF"])
@pytest.mark.parametrize("pixels", [DEEP, BYTES], ids=["16 bits", "8 bits"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_both_depths_come_out_as_they_went_in(tmp_path, suffix, channels, pixels, out):
    picture, array = tmp_path / f"in.{suffix}", pixels[..., 0] if channels == 1 else pixels[..., :3]
    if suffix == "png":
        png(picture, array, 0 if channels == 1 else 2)
    else:
        tifffile.imwrite(picture, array, photometric="minisblack" if channels == 1 else "rgb")
    same(through(picture, out=out), array)


@pytest.mark.parametrize("channels", [1, 3])
def test_16_bits_are_filtered_as_uint16(tmp_path, channels):
    picture, array = tmp_path / "in.png", DEEP[..., :channels]
    png(picture, array, 0 if channels == 1 else 2)
    found = through(picture, "--size", "7", "--sigma", "1.5", name="gaussian", out="out.tif")
    expected = torch_conv.gaussian_blur2d(torch.from_numpy(array.copy()).permute(2, 0, 1), 7, 1.5)
    same(found, expected.permute(1, 2, 0).numpy())


@pytest.mark.parametrize(
    "options",
    [
        {"byteorder": ">"},
        {"bigtiff": True},
        {"compression": "zlib", "predictor": True},
        {"rowsperstrip": 3},
        {"tile": (16, 16)},
        pytest.param({"compression": "lzw"}, marks=with_codecs),
        pytest.param({"compression": "lzw", "predictor": True}, marks=with_codecs),
        pytest.param({"compression": "zstd"}, marks=with_codecs),
        pytest.param({"compression": "packbits"}, marks=with_codecs),
        {"planarconfig": "separate"},
    ],
    ids=str,
)
@pytest.mark.parametrize("channels", [1, 3])
def test_forms_of_tiff(tmp_path, channels, options):
    picture, array = tmp_path / "in.tif", DEEP[..., 0] if channels == 1 else DEEP[..., :3]
    planes = np.moveaxis(array, -1, 0) if channels == 3 and "planarconfig" in options else array
    tifffile.imwrite(picture, planes, photometric="minisblack" if channels == 1 else "rgb", **options)
    same(through(picture), array)


@pytest.mark.parametrize(
    ("mode", "becomes", "compression"),
    [
        pytest.param("1", "L", "group4", marks=with_codecs),
        pytest.param("1", "L", "group3", marks=with_codecs),
        pytest.param("L", "L", "packbits", marks=with_codecs),
        pytest.param("P", "RGB", "tiff_lzw", marks=with_codecs),
        pytest.param("RGB", "RGB", "tiff_lzw", marks=with_codecs),
    ],
)
def test_forms_of_tiff_by_pillow(tmp_path, mode, becomes, compression):
    picture = pil.fromarray(BYTES[..., :3]).convert(mode)
    picture.save(tmp_path / "in.tif", compression=compression)
    same(through(tmp_path / "in.tif"), np.asarray(picture.convert(becomes)))


@with_codecs
@pytest.mark.parametrize("mode", ["RGB", "YCbCr"])
def test_a_tiff_of_jpeg(tmp_path, mode):
    picture = pil.fromarray(cv2.GaussianBlur(BYTES[..., :3], (0, 0), 3))
    picture.convert(mode).save(tmp_path / "in.tif", compression="jpeg", quality=100)
    assert abs(through(tmp_path / "in.tif").astype(int) - np.asarray(picture)).max() <= 4  # JPEG's own error


@pytest.mark.parametrize("compression", [None, "zlib", "tiff_lzw"])
def test_imagecodecs_is_asked_for_where_a_tiff_needs_it(tmp_path, monkeypatch, capsys, compression):
    pil.fromarray(BYTES[..., :3]).save(tmp_path / "in.tif", compression=compression)
    monkeypatch.setitem(sys.modules, "imagecodecs", None)
    if compression != "tiff_lzw":
        return same(through(tmp_path / "in.tif"), BYTES[..., :3])
    said = refused(capsys, "filter", tmp_path / "in.tif", tmp_path / "out.png", "--filter", "box", "--device", "cpu")
    assert said == "torch-conv filter: imagecodecs is not installed: pip install 'torch-conv[cli]'"


def test_a_preview_in_a_tiff_is_left_out(tmp_path):
    tifffile.imwrite(tmp_path / "in.tif", DEEP[..., 0], photometric="minisblack")
    tifffile.imwrite(tmp_path / "in.tif", DEEP[::4, ::4, 0], photometric="minisblack", subfiletype=1, append=True)
    same(through(tmp_path / "in.tif"), DEEP[..., 0])


@pytest.mark.parametrize("pixels", [DEEP, BYTES], ids=["16 bits", "8 bits"])
def test_colours_may_be_multiplied_by_their_opacity(tmp_path, pixels):
    array, full = pixels // 2, np.iinfo(pixels.dtype).max
    array[..., 3] = full // 2 + 1
    tifffile.imwrite(tmp_path / "in.tif", array, photometric="rgb", extrasamples=["assocalpha"])
    same(through(tmp_path / "in.tif", "--background", "black"), array[..., :3])
    expected = np.rint(array[..., :3] + full * (1 - array[..., 3:] / full)).astype(pixels.dtype)
    same(through(tmp_path / "in.tif", "--background", "white", "--force"), expected)


@pytest.mark.parametrize("pixels", [DEEP, BYTES], ids=["16 bits", "8 bits"])
def test_white_may_be_zero(tmp_path, pixels):
    tifffile.imwrite(tmp_path / "in.tif", pixels[..., 0], photometric="miniswhite")
    same(through(tmp_path / "in.tif"), np.iinfo(pixels.dtype).max - pixels[..., 0])


UPRIGHT = {
    1: lambda a: a,
    2: np.fliplr,
    3: lambda a: np.rot90(a, 2),
    4: np.flipud,
    5: lambda a: np.swapaxes(a, 0, 1),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: np.rot90(np.swapaxes(a, 0, 1), 2),
    8: np.rot90,
}


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize("pixels", [DEEP, BYTES], ids=["16 bits", "8 bits"])
@pytest.mark.parametrize("form", ["grey tif", "rgb tif", "rgb tif big", "rgb tif swapped", "grey png", "rgb png"])
def test_pictures_come_out_upright(tmp_path, form, pixels, orientation):
    colours, suffix, *how = form.split()
    picture, array = tmp_path / f"in.{suffix}", pixels[..., 0] if colours == "grey" else pixels[..., :3]
    if suffix == "png":
        exif = pil.Exif()
        exif[274] = orientation
        png(picture, array, 0 if colours == "grey" else 2, [(b"eXIf", exif.tobytes()[6:])])
    else:
        kind = "minisblack" if colours == "grey" else "rgb"
        layout = {"bigtiff": "big" in how, "byteorder": ">" if "swapped" in how else "<"}
        tifffile.imwrite(picture, array, photometric=kind, extratags=[(274, "H", 1, orientation, True)], **layout)
    same(through(picture), UPRIGHT[orientation](array))


@pytest.mark.parametrize("pixels", [DEEP, BYTES], ids=["16 bits", "8 bits"])
def test_exif_data_may_stand_behind_the_pixels(tmp_path, pixels):
    exif = pil.Exif()
    exif[274] = 6
    png(tmp_path / "in.png", pixels[..., :3], 2, behind=[(b"eXIf", exif.tobytes()[6:])])
    same(through(tmp_path / "in.png"), UPRIGHT[6](pixels[..., :3]))


def test_16_bits_are_decoded_once(tmp_path, monkeypatch):
    png(tmp_path / "in.png", DEEP[..., :3], 2)
    decoded, decode = [], cv2.imdecode
    monkeypatch.setattr(cv2, "imdecode", lambda *given: decoded.append(given) or decode(*given))
    monkeypatch.setattr(pil.core, "new", lambda *given: pytest.fail("Pillow decodes, too"))
    from torch_conv.cli.programs import read_picture

    assert read_picture(tmp_path / "in.png").dtype == torch.uint16
    assert len(decoded) == 1


def test_a_jpeg_is_turned_and_its_previews_are_left_out(tmp_path):
    exif, picture = pil.Exif(), pil.fromarray(cv2.GaussianBlur(BYTES[..., :3], (0, 0), 3))
    exif[274] = 6
    picture.save(
        tmp_path / "in.jpg", "MPO", exif=exif, save_all=True, append_images=[picture.resize((4, 4))], quality=100
    )
    found = through(tmp_path / "in.jpg").astype(int)
    assert abs(found - np.rot90(np.asarray(picture).astype(int), -1)).max() <= 4  # JPEG's own error


def test_palettes_become_rgb_and_bits_grey(tmp_path):
    picture = pil.fromarray(BYTES[..., :3]).quantize(16)
    for name in ("p.png", "p.gif", "p.tif"):
        picture.save(tmp_path / name)
        same(through(tmp_path / name, "--force"), np.asarray(picture.convert("RGB")))
    bits = pil.fromarray(BYTES[..., 0]).convert("1")
    for name in ("b.png", "b.tif"):
        bits.save(tmp_path / name)
        same(through(tmp_path / name, "--force"), np.where(np.asarray(bits), np.uint8(255), np.uint8(0)))


@pytest.mark.parametrize("pixels", [DEEP, BYTES], ids=["16 bits", "8 bits"])
@pytest.mark.parametrize("kind", [4, 6], ids=["grey", "rgb"])
def test_transparency_is_asked_about(tmp_path, capsys, kind, pixels):
    picture, full = tmp_path / "in.png", np.iinfo(pixels.dtype).max
    array = pixels[..., [0, 3] if kind == 4 else [0, 1, 2, 3]].copy()
    png(picture, array, kind)
    said = refused(capsys, "filter", picture, tmp_path / "out.png", "--filter", "box", "--device", "cpu")
    beneath = "--background white or black says what lies beneath them"
    assert said == f"torch-conv filter: {picture} has transparent pixels: {beneath}"
    colours, share = array[..., :-1].astype(np.float64), array[..., -1:] / full
    for name, value in (("white", full), ("black", 0)):
        expected = np.rint(colours * share + value * (1 - share)).astype(pixels.dtype)
        same(through(picture, "--background", name, "--force"), expected)
    array[..., -1] = full  # nothing shines through: nothing is asked
    png(picture, array, kind)
    same(through(picture, "--force"), array[..., :-1])


@pytest.mark.parametrize("pixels", [DEEP, BYTES], ids=["16 bits", "8 bits"])
@pytest.mark.parametrize("kind", [0, 2], ids=["grey", "rgb"])
def test_a_colour_may_be_transparent(tmp_path, capsys, kind, pixels):
    picture, array = tmp_path / "in.png", pixels[..., : 1 if kind == 0 else 3]
    png(picture, array, kind, [(b"tRNS", struct.pack(f">{array.shape[2]}H", *array[2, 3]))])
    assert "transparent pixels" in refused(capsys, "filter", picture, tmp_path / "out.png", "--filter", "box")
    there = (array == array[2, 3]).all(-1, keepdims=True)
    same(through(picture, "--background", "black"), np.where(there, array.dtype.type(0), array))


def written(path, kind):
    """A file of that kind which cannot be filtered."""
    picture = pil.fromarray(BYTES[..., :3])
    if kind == "missing":
        return
    if kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("no image")
    elif kind == "avif":  # not every Pillow writes one
        path.write_bytes(b"\0\0\0\x1cftypavif" + bytes(64))
    elif kind == "cmyk":
        picture.convert("CMYK").save(path, "JPEG")
    elif kind == "pages":
        tifffile.imwrite(path, np.stack([BYTES[..., 0]] * 2))
    elif kind == "kinds":
        tifffile.imwrite(path, BYTES[..., 0])
        tifffile.imwrite(path, BYTES[:9, :9, 0], append=True)
    elif kind == "moving":
        picture.save(path, "GIF", save_all=True, append_images=[picture.rotate(90)])
    elif kind in ("int8", "int16", "float32", "uint32"):
        tifffile.imwrite(path, BYTES[..., 0].astype(kind))
    elif kind == "white":
        tifffile.imwrite(path, BYTES[..., 0].astype("float32"), photometric="miniswhite")
    elif kind in ("separated", "cielab"):
        tifffile.imwrite(path, BYTES[..., : 4 if kind == "separated" else 3], photometric=kind)
    elif kind == "share":
        tifffile.imwrite(path, BYTES.astype("float32"), photometric="rgb", extrasamples=["unassalpha"])
    elif kind == "channels":
        tifffile.imwrite(path, BYTES, photometric="rgb", extrasamples=["unspecified"])
    elif kind == "deeptif head":  # tifffile writes the directory before the pixels
        tifffile.imwrite(path, DEEP[..., :3], photometric="rgb")
        path.write_bytes(path.read_bytes()[:-100])
    else:
        form, share = kind.split()
        if form.startswith("deep"):
            cv2.imwrite(f"{path}.{form[4:]}", DEEP[..., :3])
            content = path.with_name(f"{path.name}.{form[4:]}").read_bytes()
            path.with_name(f"{path.name}.{form[4:]}").unlink()
        else:
            picture.save(path, form)
            content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * float(share))])


DAMAGED = "is damaged or cut short"
BROKEN = "is damaged, cut short or in a form that cannot be read"
NUMBERS = "must have numbers of uint8, uint16, int16, float16, float32 or float64, got"


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("missing", "there is no file IN"),
        ("folder", "IN is a folder"),
        ("empty", "IN is empty"),
        ("text", "IN is not an image that can be read (PNG, JPEG, GIF, WebP or TIFF)"),
        ("cmyk", "IN must be grey or RGB, got CMYK"),
        ("pages", "IN holds 2 pages: --stack volume or --stack images says what they are"),
        ("kinds", "IN must hold pages of one size and kind, got 2 kinds"),
        ("moving", "IN must hold one picture, got 2"),
        ("int8", f"IN {NUMBERS} int8"),
        ("uint32", f"IN {NUMBERS} uint32"),
        ("white", "IN must be black where it is 0, got white and float32"),
        ("separated", "IN must be grey or RGB, got CMYK"),
        ("cielab", "IN must be grey or RGB, got CIELAB"),
        ("share", "IN must be grey or RGB, got 4 channels"),
        ("channels", "IN must be grey or RGB, got 4 channels"),
        ("int16", "OUT cannot hold int16: only TIFF can"),
        ("float32", "OUT cannot hold float32: only TIFF can"),
        ("BMP 1", "IN must be PNG, JPEG, GIF, WebP or TIFF, got BMP"),
        ("avif", "IN must be PNG, JPEG, GIF, WebP or TIFF, got AVIF"),
        ("PNG 0.5", f"IN {DAMAGED}"),
        ("PNG 0.01", f"IN {DAMAGED}"),
        ("JPEG 0.9", f"IN {DAMAGED}"),
        ("GIF 0.9", f"IN {DAMAGED}"),
        ("TIFF 0.5", f"IN {BROKEN}"),
        ("WEBP 0.5", f"IN {DAMAGED}"),
        ("deeppng 0.5", f"IN {DAMAGED}"),
        ("deeppng 0.99", f"IN {DAMAGED}"),
        ("deeptif head", f"IN {BROKEN}"),
        ("deeptif 0.5", f"IN {BROKEN}"),
    ],
)
def test_pictures_that_cannot_be_read(tmp_path, capfd, kind, sentence):
    picture = tmp_path / "in.png"  # its content decides the format
    written(picture, kind)
    capfd.readouterr()
    before = sorted(tmp_path.iterdir())
    said = refused(capfd, "filter", picture, tmp_path / "out.png", "--filter", "box", "--device", "cpu")
    sentence = sentence.replace("IN", str(picture), 1).replace("OUT", str(tmp_path / "out.png"))
    assert said == f"torch-conv filter: {sentence}"
    assert sorted(tmp_path.iterdir()) == before


def test_jpeg_does_not_take_16_bits(tmp_path, capsys):
    png(tmp_path / "in.png", DEEP[..., 0], 0)
    out = tmp_path / "out.jpg"
    said = refused(capsys, "filter", tmp_path / "in.png", out, "--filter", "box", "--device", "cpu")
    assert said == f"torch-conv filter: {out} cannot hold 16 bits a channel: only PNG and TIFF can"
    assert not out.exists()


def test_jpeg_has_a_largest_size(tmp_path, capfd):
    pil.new("L", (65536, 1)).save(tmp_path / "in.png")
    out = tmp_path / "out.jpg"
    said = refused(capfd, "filter", tmp_path / "in.png", out, "--filter", "box", "--device", "cpu")
    assert said == f"torch-conv filter: {out} cannot be written: 65536 x 1 pixels do not fit into such a file"
    assert not out.exists()


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_many_pixels_are_read(tmp_path, suffix):
    pil.new("1", (20000, 10000)).save(tmp_path / f"in.{suffix}")  # more than Pillow takes from strangers
    from torch_conv.cli._pictures import read_picture

    assert read_picture(tmp_path / f"in.{suffix}").shape == (1, 10000, 20000)


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(tmp_path, capfd):
    png(tmp_path / "in.png", BYTES[..., :3], 2)
    content = bytearray((tmp_path / "in.png").read_bytes())
    content[16:24] = struct.pack(">II", 60000, 50000)  # the header's numbers
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    (tmp_path / "in.png").write_bytes(content)
    said = refused(capfd, "filter", tmp_path / "in.png", tmp_path / "out.png", "--filter", "box", "--device", "cpu")
    most = 1 << 29
    assert said == f"torch-conv filter: {tmp_path / 'in.png'} must have at most {most} pixels, got 60000 x 50000"


def test_limit_of_pillow_is_not_changed(tmp_path, monkeypatch):
    """All threads share the limit, and a child process may be forked meanwhile."""
    from torch_conv.cli.programs import UsageError, read_picture

    monkeypatch.setattr(pil, "MAX_IMAGE_PIXELS", 10)
    during = []
    for module in (pil.Image, importlib.import_module("PIL.ImageFile").ImageFile):
        real = module.load

        def load(self, real=real):
            during.append(pil.MAX_IMAGE_PIXELS)
            return real(self)

        monkeypatch.setattr(module, "load", load)
    picture = pil.fromarray(BYTES[..., :3])
    for suffix in ("png", "jpg", "gif", "webp", "tif"):
        picture.save(tmp_path / f"in.{suffix}")
        assert read_picture(tmp_path / f"in.{suffix}").shape == (3, H, W)
    png(tmp_path / "in.png", BYTES[..., :3], 2)
    with pytest.raises(UsageError, match=rf"must have at most 99 pixels, got {W} x {H}$"):
        read_picture(tmp_path / "in.png", most_pixels=99)
    pages = [picture, pil.fromarray(BYTES[::-1, ::-1, :3].copy())]
    pages[0].save(tmp_path / "in.gif", save_all=True, append_images=pages[1:], disposal=2)
    with pytest.raises(UsageError, match="must (have no more pixels than Pillow reads|hold one picture)"):
        read_picture(tmp_path / "in.gif")
    assert len(during) >= 4
    assert set(during) == {pil.MAX_IMAGE_PIXELS} == {10}
