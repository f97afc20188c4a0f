"""Pictures and stacks of pages as tensors, read without loss or refused in one sentence."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_conv.bench.files import reason
from torch_conv.bench.usage import UsageError, needed
from torch_conv.cli import _tiff
from torch_conv.cli._images import STANDARD, silent_libraries

FORMATS = ("PNG", "JPEG", "GIF", "WEBP")  # as Pillow calls them
BEGINNINGS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF")
HEIF = {b"heic": "HEIC", b"heix": "HEIC", b"mif1": "HEIC", b"avif": "AVIF"}  # brands of an "ftyp" box
BACKGROUNDS = {"white": 1.0, "black": 0.0}
MOST_PIXELS = 1 << 29  # of a page, 23170 x 23170: a file of a few hundred kilobytes can claim more
GREY, RGB = ("1", "L", "LA"), ("P", "PA", "RGB", "RGBA", "YCbCr")  # Pillow's modes of up to 8 bits
DEEP_GREY = ("I", "I;16", "I;16L", "I;16B")
ORIENTATION = 274  # a tag of EXIF
SIDEWAYS = (5, 6, 7, 8)  # its values that exchange rows and columns


@dataclass
class Picture:
    """The content of a file, upright as EXIF says."""

    pixels: Tensor  # (C, H, W), or pages (*axes, C, H, W); one or three channels
    axes: str = ""  # of the pages, a letter each: Z, T, C; Q and I are unknown
    resolution: dict[str, Any] = field(default_factory=dict)  # of a TIFF, as tifffile takes it


@dataclass
class Opened:
    """A file's picture, as Pillow opens it, and the facts that Pillow drops."""

    image: Any
    deep: bool  # 16 bits a channel
    colours: bool  # several channels of 16 bits: OpenCV decodes them, because Pillow keeps 8
    grey: bool
    orientation: int  # of EXIF, for the pixels in file order


def read_picture(path: Path, background: str | None = None, most_pixels: int = MOST_PIXELS) -> Tensor:
    """A uint8 or uint16 tensor (C, H, W) of one or three channels, upright as EXIF says.

    Args:
        path: a PNG, JPEG, GIF, WebP or TIFF of one picture; its content says which.
        background: "white" or "black" beneath transparent pixels; without it they are refused.
        most_pixels: a picture of more is refused before it is decoded. Pillow's own limit does not count.
    """
    picture = decoded(path, read_file(path), background, most_pixels)
    if picture.axes:
        raise UsageError(f"{path} must hold one picture, got {picture.pixels.shape[:-3].numel()}")
    if picture.pixels.dtype not in (torch.uint8, torch.uint16):
        dtype = str(picture.pixels.dtype).removeprefix("torch.")
        raise UsageError(f"{path} must have up to 8 or 16 bits a channel, unsigned, got {dtype}")
    return picture.pixels


def decoded(name: object, content: bytes, background: str | None, most_pixels: int = MOST_PIXELS) -> Picture:
    """The picture or the pages of a file. Refusals begin with `name`."""
    np = needed("numpy", "numpy")
    with silent_libraries():
        if form_of(content) == "tif":
            pages = _tiff.read_tiff(name, content, most_pixels)
        else:
            opened = open_picture(name, content, most_pixels)
            colours, alpha = deep_pixels(name, content, opened) if opened.deep else pixels(opened.image)
            pages = _tiff.Pages(colours, alpha, orientation=opened.orientation)
    array = np.ascontiguousarray(turned(on_background(name, pages, background), pages.orientation))
    resolution = pages.resolution
    if resolution and pages.orientation in SIDEWAYS:
        resolution = {**resolution, "resolution": resolution["resolution"][::-1]}
    return Picture(torch.from_numpy(array).movedim(-1, -3), pages.axes, resolution)


def form_of(content: bytes) -> str:
    """The format in which such a file is written again: "tif", "jpg", and "png" for all others."""
    if content.startswith(_tiff.BEGINNINGS):
        return "tif"
    return "jpg" if content.startswith(b"\xff\xd8\xff") else "png"


def on_background(name: object, pages: _tiff.Pages, background: str | None) -> Any:
    """The colours with what shines through transparent pixels."""
    np = needed("numpy", "numpy")
    if pages.alpha is None or pages.alpha.min() == (full := np.iinfo(pages.colours.dtype).max):
        return pages.colours
    if background is None:
        raise UsageError(f"{name} has transparent pixels: --background white or black says what lies beneath them")
    share = pages.alpha[..., None] / full
    colours = pages.colours if pages.multiplied else pages.colours * share
    return np.rint(colours + full * BACKGROUNDS[background] * (1 - share)).clip(0, full).astype(pages.colours.dtype)


def read_file(path: Path) -> bytes:
    """All bytes of a file, or of standard input for STANDARD."""
    name = "standard input" if path is STANDARD else path
    try:
        with open(0 if path is STANDARD else path, "rb", closefd=path is not STANDARD) as file:
            content = file.read()
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {name}") from error
    except IsADirectoryError as error:
        raise UsageError(f"{name} is a folder") from error
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {reason(error)}") from error
    if not content:
        raise UsageError(f"{name} is empty")
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


def open_picture(name: object, content: bytes, most_pixels: int) -> Opened:
    """The picture of a file, decoded to its end unless OpenCV decodes it."""
    too_large = needed("PIL.Image", "Pillow").DecompressionBombError  # raised by Pillow's reader of GIF
    try:
        image = begun(content)
        width, height = image.size
        if width * height > most_pixels:
            raise UsageError(f"{name} must have at most {most_pixels} pixels, got {width} x {height}")
        pages = 1 if image.format == "MPO" else getattr(image, "n_frames", 1)  # MPO: a JPEG, then its previews
        if pages != 1:
            raise UsageError(f"{name} must hold one picture, got {pages}")
        opened = described(name, content, image)
        if not opened.colours:
            image.load()
    except (UsageError, MemoryError):
        raise
    except too_large as error:
        raise UsageError(f"{name} must have no more pixels than Pillow reads: {error}") from error
    except Exception as error:  # a damaged file may raise anything
        if content.startswith(BEGINNINGS):
            raise UsageError(f"{name} is damaged or cut short") from error
        if form := foreign_form(content):
            raise UsageError(f"{name} must be PNG, JPEG, GIF, WebP or TIFF, got {form}") from error
        raise UsageError(f"{name} is not an image that can be read (PNG, JPEG, GIF, WebP or TIFF)") from error
    return opened


def foreign_form(content: bytes) -> str | None:
    """The name of an image format that many cameras and programs write and that is not read here."""
    if content.startswith(b"BM") and content[6:10] == bytes(4):
        return "BMP"
    return HEIF.get(content[8:12]) if content[4:8] == b"ftyp" else None


def described(name: object, content: bytes, image: Any) -> Opened:
    """The picture as its header describes it. Refuses all but grey and RGB."""
    bits, grey = 8, image.mode in GREY
    if image.format == "PNG":  # its first chunk has the depth, then the kind of colours
        bits, kind = content[24], content[25]
        grey = kind in (0, 4)
    deep = bits == 16
    if image.mode not in ((*DEEP_GREY, "RGB", "RGBA") if deep else (*GREY, *RGB)):
        raise UsageError(f"{name} must be grey or RGB, got {image.mode}")
    return Opened(image, deep, deep and image.mode not in DEEP_GREY, grey, orientation(image, content))


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


def deep_pixels(name: object, content: bytes, opened: Opened) -> tuple[Any, Any]:
    """Arrays of 16 bits a channel: the colours (H, W, C), and the opacity (H, W) or None."""
    np = needed("numpy", "numpy")
    image = opened.image
    array = deep_colours(name, content, image) if opened.colours else np.array(image, np.uint16)[..., None]
    colours, alpha = array[..., :3], array[..., 3] if array.shape[2] == 4 else None
    if "transparency" in image.info:  # one transparent colour
        alpha = np.where((colours == np.array(image.info["transparency"])).all(-1), 0, 65535)
    return colours[..., :1] if opened.grey else colours, alpha


def deep_colours(name: object, content: bytes, image: Any) -> Any:
    """The 16 bits a channel of a PNG by OpenCV, in file order."""
    np, cv2 = needed("numpy", "numpy"), needed("cv2", "OpenCV")
    try:
        array = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_UNCHANGED)
    except cv2.error:
        array = None
    if array is not None and array.ndim == 3 and array.dtype == np.uint16:
        array = array[..., [2, 1, 0, 3][: array.shape[2]]]
        array = array[..., : len(image.getbands())]  # where a PNG names a transparent colour, OpenCV adds a channel
        if sorted(array.shape[:2]) == sorted(image.size) and array.shape[2] == len(image.getbands()):
            return array
    raise UsageError(f"{name} is damaged or cut short")


def turned(array: Any, orientation: int) -> Any:
    """Pixels (..., H, W, C) turned by EXIF's orientation 1 to 8."""
    if orientation in SIDEWAYS:
        array = array.swapaxes(-3, -2)
    if orientation in (3, 4, 7, 8):
        array = array[..., ::-1, :, :]
    return array[..., ::-1, :] if orientation in (2, 3, 6, 7) else array
