"""TIFF files by tifffile: pictures and stacks of pages, integers and floating-point numbers."""

from __future__ import annotations

import io
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch_conv.bench.usage import UsageError, needed

BEGINNINGS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
DTYPES = ("uint8", "uint16", "int16", "float16", "float32", "float64")
CHANNELS = {"MINISBLACK": 1, "MINISWHITE": 1, "PALETTE": 1, "RGB": 3, "YCBCR": 3}  # by photometric interpretation
PLAIN = (1, 8, 32946)  # compressions: none, and Deflate by its two numbers
JPEG = (6, 7)  # compressions that tifffile decodes to RGB
MULTIPLIED, OPACITY = 1, 2  # kinds of extra samples


@dataclass
class Pages:
    """The pixels of a file in file order, and what its tags say about them."""

    colours: Any  # (*axes, H, W, C)
    alpha: Any = None  # (*axes, H, W): opacity
    multiplied: bool = False  # the colours by their opacity
    axes: str = ""  # of the pages, a letter each: Z, T, C; Q and I are unknown
    orientation: int = 1  # of EXIF
    resolution: dict[str, Any] = field(default_factory=dict)  # as tifffile takes it


def read_tiff(name: object, content: bytes, most_pixels: int) -> Pages:
    """The pages of a TIFF, which must all have one size and kind."""
    np, tifffile = needed("numpy", "numpy"), needed("tifffile", "tifffile")
    try:
        with tifffile.TiffFile(io.BytesIO(content), _multifile=False) as file:
            series = [one for one in file.series if not one.keyframe.is_reduced]  # without previews
            kinds = {(one.shape, one.dtype, one.axes, one.keyframe.photometric) for one in series}
            if len(kinds) > 1:
                raise UsageError(f"{name} must hold pages of one size and kind, got {len(kinds)} kinds")
            check_kind(name, series[0].keyframe, most_pixels)
            if not all(is_read_by_tifffile(one.keyframe) for one in series):
                needed("imagecodecs", "imagecodecs")
            check_memory(name, sum(one.nbytes for one in series))
            array, axes = series[0].asarray(), series[0].axes
            if len(series) > 1:  # pages that were written one by one
                array, axes = np.stack([array, *(one.asarray() for one in series[1:])]), f"Q{axes}"
            if not is_whole(file):
                raise ValueError("a page is missing")
            last = [axes.index("Y"), axes.index("X"), *([axes.index("S")] if "S" in axes else [])]
            first = [at for at in range(len(axes)) if at not in last]
            array = array.transpose(*first, *last)
            if "S" not in axes:
                array = array[..., None]
            return described(series[0].keyframe, np, array, "".join(axes[at] for at in first))
    except (UsageError, MemoryError):
        raise
    except Exception as error:  # a damaged file may raise anything
        raise UsageError(f"{name} is damaged, cut short or in a form that cannot be read") from error


def is_read_by_tifffile(page: Any) -> bool:
    """Whether tifffile decodes the page by itself, without imagecodecs."""
    return page.compression in PLAIN and page.predictor in (1, 2) and page.bitspersample in (1, 8, 16, 32, 64)


def check_memory(name: object, size: int) -> None:
    """Refuses, before the pixels are decoded, more bytes than the machine has free: a small file can claim them."""
    free = free_memory()
    if size > free:
        claimed, there = (f"{number / 2**30:.3g} GiB" for number in (size, free))
        raise UsageError(f"{name} must fit into the free memory of {there}, got {claimed} of pixels")


def free_memory() -> float:
    """Bytes that programs can have without swapping; infinite where the system does not say."""
    try:
        (kilobytes,) = re.findall(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except (OSError, ValueError):
        return math.inf
    return 1024 * int(kilobytes)


def is_whole(file: Any) -> bool:
    """Whether the list of pages has its end. tifffile drops pages behind a damaged one."""
    len(file.pages)  # reads the list
    file.filehandle.seek(file.pages.next_page_offset)
    return file.filehandle.read(file.tiff.offsetsize) == bytes(file.tiff.offsetsize)


def check_kind(name: object, page: Any, most_pixels: int) -> None:
    """Refuses, before the pixels are decoded, all but grey and RGB of the known dtypes."""
    width, height, bits = page.imagewidth, page.imagelength, page.bitspersample
    if width * height > most_pixels:
        raise UsageError(f"{name} must have at most {most_pixels} pixels, got {width} x {height}")
    dtype, kind = str(page.dtype), getattr(page.photometric, "name", str(page.photometric))
    if dtype not in (*DTYPES, "bool"):
        raise UsageError(f"{name} must have numbers of {', '.join(DTYPES[:-1])} or {DTYPES[-1]}, got {dtype}")
    if kind not in CHANNELS or (kind == "YCBCR" and page.compression not in JPEG):
        raise UsageError(f"{name} must be grey or RGB, got {'CMYK' if kind == 'SEPARATED' else kind}")
    alpha = page.extrasamples[:1] in ((MULTIPLIED,), (OPACITY,)) and dtype in ("uint8", "uint16") and bits >= 8
    if page.samplesperpixel != CHANNELS[kind] + alpha:
        raise UsageError(f"{name} must be grey or RGB, got {page.samplesperpixel} channels")
    if kind == "MINISWHITE" and dtype not in ("bool", "uint8", "uint16"):
        raise UsageError(f"{name} must be black where it is 0, got white and {dtype}")


def described(page: Any, np: Any, array: Any, axes: str) -> Pages:
    """The pages with the colours of their palette, and with numbers of up to 8 bits stretched to 8."""
    kind, bits = page.photometric.name, page.bitspersample
    if kind == "PALETTE":
        array = (page.colormap >> 8).astype(np.uint8)[:, array[..., 0]]
        array = np.moveaxis(array, 0, -1)
    elif bits < 8:
        array = np.rint(array * (255 / (2**bits - 1))).astype(np.uint8)
    if kind == "MINISWHITE":
        array = np.iinfo(array.dtype).max - array
    channels = 3 if kind == "PALETTE" else CHANNELS[kind]
    tags = page.tags
    pages = Pages(array[..., :channels], axes=axes, orientation=tags["Orientation"].value if 274 in tags else 1)
    if array.shape[-1] > channels:
        pages.alpha, pages.multiplied = array[..., channels], page.extrasamples[0] == MULTIPLIED
    if 282 in tags and all(math.isfinite(number) and number > 0 for number in page.resolution):
        pages.resolution = {"resolution": page.resolution, "resolutionunit": page.resolutionunit}
    return pages


def tiff_of(array: Any, resolution: dict[str, Any]) -> bytes:
    """A TIFF of pages (*axes, H, W, C), one or three channels, by Deflate, which tifffile reads without imagecodecs."""
    tifffile = needed("tifffile", "tifffile")
    grey = array.shape[-1] == 1
    content = io.BytesIO()
    tifffile.imwrite(
        content,
        array[..., 0] if grey else array,
        photometric="minisblack" if grey else "rgb",
        planarconfig=None if grey else "contig",
        compression="zlib",
        metadata=None,
        software=False,
        **resolution,
    )
    return content.getvalue()
