"""Pictures as tensors of 8 or 16 bits a channel, read without loss or refused in one sentence."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_conv.bench.files import reason
from torch_conv.bench.usage import UsageError, needed
from torch_conv.cli._images import silent_libraries

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "TIFF")  # as Pillow calls them
BEGINNINGS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
HEIF = {b"heic": "HEIC", b"heix": "HEIC", b"mif1": "HEIC", b"avif": "AVIF"}  # brands of an "ftyp" box
BACKGROUNDS = {"white": 1.0, "black": 0.0}
MOST_PIXELS = 1 << 29  # 23170 x 23170: a file of a few hundred kilobytes can claim more
GREY, RGB = ("1", "L", "LA"), ("P", "PA", "RGB", "RGBA", "YCbCr")  # Pillow's modes of up to 8 bits
DEEP_GREY = ("I", "I;16", "I;16L", "I;16B")
# Tags of TIFF (the first one also of EXIF) and some of their values; 4 is "unspecified".
ORIENTATION, BITS, PHOTOMETRIC, SAMPLES, PLANAR, EXTRA, SAMPLE_FORMAT = 274, 258, 262, 277, 284, 338, 339
WHITE_IS_ZERO, SEPARATE, MULTIPLIED, UNSIGNED = 0, 2, 1, (1, 4)


@dataclass
class Picture:
    """A file's picture, as Pillow opens it, and the facts that Pillow drops."""

    image: Any
    deep: bool  # 16 bits a channel
    colours: bool  # several channels of 16 bits: OpenCV decodes them, because Pillow keeps 8
    grey: bool
    inverted: bool
    orientation: int  # of EXIF, for the pixels in file order


def read_picture(path: Path, background: str | None = None, most_pixels: int = MOST_PIXELS) -> Tensor:
    """A uint8 or uint16 tensor (C, H, W) of one or three channels, upright as EXIF says.

    Args:
        path: a PNG, JPEG, GIF, WebP or TIFF; its content says which.
        background: "white" or "black" beneath transparent pixels; without it they are refused.
        most_pixels: a picture of more is refused before it is decoded. Pillow's own limit does not count.
    """
    np = needed("numpy", "numpy")
    content = read_file(path)
    with silent_libraries():
        picture = opened(path, content, most_pixels)
        colours, alpha = deep_pixels(path, content, picture) if picture.deep else pixels(picture.image)
    done = picture.image.format == "TIFF" and not picture.colours  # Pillow turns a TIFF
    full = np.iinfo(colours.dtype).max
    if alpha is not None and alpha.min() < full:
        if background is None:
            raise UsageError(f"{path} has transparent pixels: --background white or black says what lies beneath them")
        share = alpha[..., None] / full
        colours = np.rint(colours * share + full * BACKGROUNDS[background] * (1 - share)).astype(colours.dtype)
    return torch.from_numpy(np.ascontiguousarray(turned(colours, 1 if done else picture.orientation))).permute(2, 0, 1)


def read_file(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {path}") from error
    except IsADirectoryError as error:
        raise UsageError(f"{path} is a folder") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {reason(error)}") from error
    if not content:
        raise UsageError(f"{path} is empty")
    return content


def begun(content: bytes) -> Any:
    """`PIL.Image.open` without its limit of pixels, which is one number for all threads of the process."""
    pil = needed("PIL.Image", "Pillow")
    pil.preinit()
    for form in FORMATS:
        if form not in pil.OPEN:
            pil.init()  # imports all formats, which takes twice as long
        factory, accept = pil.OPEN.get(form, (None, None))
        if factory and accept(content[:16]) is True:
            return factory(io.BytesIO(content), "")
    raise pil.UnidentifiedImageError("no format that is read here")


def load(image: Any) -> None:
    """Decodes an image. Pillow applies its limit again to a TIFF, but not where the image has its memory already."""
    if image.format == "TIFF":
        size = getattr(image, "_tile_size", image.size)  # in file order
        image.im = needed("PIL.Image", "Pillow").core.new(image.mode, size)
    image.load()


def opened(path: Path, content: bytes, most_pixels: int) -> Picture:
    """The picture of a file, decoded to its end unless OpenCV decodes it."""
    too_large = needed("PIL.Image", "Pillow").DecompressionBombError  # raised by Pillow's reader of GIF
    try:
        image = begun(content)
    except (UsageError, MemoryError):
        raise
    except too_large as error:
        raise UsageError(f"{path} must have no more pixels than Pillow reads: {error}") from error
    except Exception as error:  # a broken header may raise anything
        if content.startswith(BEGINNINGS):
            raise UsageError(f"{path} is damaged, cut short or not of 8 or 16 bits a channel") from error
        form = foreign_form(content)
        if form:
            raise UsageError(f"{path} must be PNG, JPEG, GIF, WebP or TIFF, got {form}") from error
        raise UsageError(f"{path} is not an image that can be read (PNG, JPEG, GIF, WebP or TIFF)") from error
    width, height = image.size
    if width * height > most_pixels:
        raise UsageError(f"{path} must have at most {most_pixels} pixels, got {width} x {height}")
    try:
        pages = 1 if image.format == "MPO" else getattr(image, "n_frames", 1)  # MPO: a JPEG, then its previews
        if pages != 1:
            raise UsageError(f"{path} must hold one picture, got {pages}")
        picture = described(path, content, image)
        if not picture.colours:
            load(image)
    except (UsageError, MemoryError):
        raise
    except too_large as error:
        raise UsageError(f"{path} must have no more pixels than Pillow reads: {error}") from error
    except Exception as error:
        raise UsageError(f"{path} is damaged or cut short") from error
    return picture


def foreign_form(content: bytes) -> str | None:
    """The name of an image format that many cameras and programs write and that is not read here."""
    if content.startswith(b"BM") and content[6:10] == bytes(4):
        return "BMP"
    return HEIF.get(content[8:12]) if content[4:8] == b"ftyp" else None


def described(path: Path, content: bytes, image: Any) -> Picture:
    """The picture as its header describes it. Refuses all but grey and RGB of integers."""
    bits, inverted, grey = 8, False, image.mode in GREY or image.mode in DEEP_GREY
    if image.format == "PNG":  # its first chunk has the depth, then the kind of colours
        bits, kind = content[24], content[25]
        grey = kind in (0, 4)
    elif image.format == "TIFF":
        tags = image.tag_v2
        bits, inverted = tags.get(BITS, (1,))[0], tags.get(PHOTOMETRIC) == WHITE_IS_ZERO
        if set(tags.get(SAMPLE_FORMAT, (1,))) - set(UNSIGNED) or not (bits <= 8 or bits == 16):
            numbers = {2: "signed ", 3: "floating-point "}.get(tags.get(SAMPLE_FORMAT, (1,))[0], "")
            raise UsageError(f"{path} must have up to 8 or 16 bits a channel, unsigned, got {numbers}{bits}")
        channels = tags.get(SAMPLES, 1)
        if channels != len(image.getbands()) or image.mode == "RGBX":
            raise UsageError(f"{path} must be grey or RGB, got {channels} channels")
        if bits == 16 and channels > 1 and (tags.get(PLANAR) == SEPARATE or tags.get(EXTRA) == (MULTIPLIED,)):
            raise UsageError(f"{path} holds its 16 bits a channel in a form that cannot be read")
    deep = bits == 16
    if image.mode not in ((*DEEP_GREY, "RGB", "RGBA") if deep else (*GREY, *RGB)):
        raise UsageError(f"{path} must be grey or RGB, got {image.mode}")
    return Picture(image, deep, deep and image.mode not in DEEP_GREY, grey, inverted, orientation(image, content))


def orientation(image: Any, content: bytes) -> int:
    """The orientation of EXIF. Reads a PNG's chunks, because Pillow would decode it to find EXIF data."""
    if image.format != "PNG":
        return image.getexif().get(ORIENTATION, 1)
    at = 8
    while at + 8 <= len(content):
        size, name = struct.unpack_from(">I4s", content, at)
        if name == b"eXIf":
            image.info["exif"] = b"Exif\0\0" + content[at + 8 : at + 8 + size]
        at += size + 12
    return needed("PIL.Image", "Pillow").Image.getexif(image).get(ORIENTATION, 1)


def pixels(image: Any) -> tuple[Any, Any]:
    """Arrays of bytes: the colours (H, W, C), and the opacity (H, W) or None."""
    np = needed("numpy", "numpy")
    grey = image.mode in GREY
    if image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info:
        array = np.array(image.convert("LA" if grey else "RGBA"))
        return array[..., :-1], array[..., -1]
    array = np.array(image.convert("L" if grey else "RGB"))
    return array.reshape(*array.shape[:2], -1), None


def deep_pixels(path: Path, content: bytes, picture: Picture) -> tuple[Any, Any]:
    """Arrays of 16 bits a channel: the colours (H, W, C), and the opacity (H, W) or None."""
    np = needed("numpy", "numpy")
    image = picture.image
    array = deep_colours(path, content, picture) if picture.colours else np.array(image, np.uint16)[..., None]
    colours, alpha = array[..., :3], array[..., 3] if array.shape[2] == 4 else None
    if picture.inverted:
        colours = 65535 - colours
    if "transparency" in image.info:  # in a PNG: one transparent colour
        alpha = np.where((colours == np.array(image.info["transparency"])).all(-1), 0, 65535)
    return colours[..., :1] if picture.grey else colours, alpha


def deep_colours(path: Path, content: bytes, picture: Picture) -> Any:
    """16 bits a channel by OpenCV, in file order."""
    np, cv2 = needed("numpy", "numpy"), needed("cv2", "OpenCV")
    image = picture.image
    data = np.frombuffer(content, np.uint8)
    if picture.orientation != 1 and image.format == "TIFF":
        data = np.frombuffer(as_stored(content), np.uint8)
    try:
        array = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    except cv2.error:
        array = None
    if array is not None and array.ndim == 3 and array.dtype == np.uint16:
        array = array[..., [2, 1, 0, 3][: array.shape[2]]]
        array = array[..., : len(image.getbands())]  # where a PNG names a transparent colour, OpenCV adds a channel
        if sorted(array.shape[:2]) == sorted(image.size) and array.shape[2] == len(image.getbands()):
            return array
    raise UsageError(f"{path} is damaged, or holds its 16 bits a channel in a form that cannot be read")


def as_stored(content: bytes) -> bytes:
    """The TIFF without its orientation, because releases of OpenCV treat it differently."""
    order, big = "<" if content[:2] == b"II" else ">", content[2:4] in (b"+\0", b"\0+")
    (first,) = struct.unpack_from(order + ("Q" if big else "I"), content, 8 if big else 4)
    (count,) = struct.unpack_from(order + ("Q" if big else "H"), content, first)
    size, value, begin = (20, 12, 8) if big else (12, 8, 2)
    patched = bytearray(content)
    for at in range(first + begin, first + begin + count * size, size):
        if struct.unpack_from(order + "H", content, at)[0] == ORIENTATION:
            struct.pack_into(order + "H", patched, at + value, 1)
    return bytes(patched)


def turned(array: Any, orientation: int) -> Any:
    """Pixels (H, W, C) turned by EXIF's orientation 1 to 8."""
    if orientation in (5, 6, 7, 8):
        array = array.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        array = array[::-1]
    return array[:, ::-1] if orientation in (2, 3, 6, 7) else array
