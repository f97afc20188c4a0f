"""`torch-conv filter IN... OUT --filter NAME`: filters photographs and stacks of pages."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from torch_conv.bench.files import make_folder
from torch_conv.bench.progress import progress_bar
from torch_conv.bench.usage import UsageError
from torch_conv.cli import add_force, user_arguments
from torch_conv.cli._filters import FILTERS, VOLUME_FILTERS, add_options, filter_of
from torch_conv.cli._images import (
    FORMS,
    JPEG_QUALITY,
    STANDARD,
    check_content,
    device_named,
    path_given,
    write_image,
)
from torch_conv.cli._pictures import BACKGROUNDS, Picture, decoded, form_of, read_file
from torch_conv.cli._targets import targets_of
from torch_conv_cli import complain, printable


class OptionError(UsageError):
    """A refusal of the options, which no other input would change."""


@contextlib.contextmanager
def option_refusals() -> Iterator[None]:
    try:
        with user_arguments():
            yield
    except UsageError as error:
        raise OptionError(str(error)) from error


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "filter",
        usage="%(prog)s IN [IN ...] OUT --filter NAME [options]",
        description="Filter photographs: PNG, JPEG, GIF, WebP or TIFF in; PNG, TIFF or JPEG "
        f"(quality {JPEG_QUALITY}, 8 bits) out. Channels of 16 bits keep them; a TIFF keeps int16, floats "
        "and its resolution. Colours of a palette become RGB, black and white become grey, and a picture is turned as "
        "its EXIF orientation says. Not written: EXIF data, colour profiles, and the axes and scales that ImageJ and "
        "OME programs note. Refused: CMYK, several pictures in a GIF or WebP, transparency without --background, and "
        "an output that exists without --force.",
        epilog="Several inputs need a folder as OUT; OUT/ makes it. Each file keeps its name there, but GIF and WebP "
        "become .png. An input that cannot be read is named, the others are filtered, and the exit status is 2. "
        f"{FILTERS} 'sobel' is the gradient's magnitude; the _x and _y windows and 'laplacian' keep only positive "
        f"values where an image has no negative ones. Filters of volumes: {', '.join(VOLUME_FILTERS)}.",
    )
    parser.any_order = True
    parser.add_argument(
        "paths",
        metavar="IN ... OUT",
        nargs="*",
        help="photographs, - for standard input; then a file .png, .tif or .jpg, a folder, or - for standard output",
    )
    add_options(parser, required=False)
    parser.add_argument(
        "--stack",
        metavar="KIND",
        choices=("volume", "images"),
        help="what the pages of a TIFF are: volume (filtered along z too; K, S and the anchor may be Z,Y,X) | images",
    )
    parser.add_argument(
        "--format",
        metavar="NAME",
        choices=sorted(set(FORMS.values())),
        help="jpg | png | tif: of files in a folder and of - (default: that of the input)",
    )
    parser.add_argument(
        "--background",
        metavar="NAME",
        choices=BACKGROUNDS,
        help=f"beneath transparent pixels: {' | '.join(BACKGROUNDS)}",
    )
    add_force(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    given = {"IN": args.paths, "OUT": args.paths[1:], "--filter": args.filter}
    if missing := [name for name, value in given.items() if not value]:  # argparse would name some, then others
        raise UsageError(f"{', '.join(missing)} must be given (see {args.prog} --help)")
    *inputs, output = args.paths
    sources = [path_given(text) for text in inputs]
    function = filter_of(args, volume=args.stack == "volume")
    device = device_named(args.device)
    targets = targets_of(sources, output, args.format, args.force)
    if len(targets) == 1:
        return filter_file(args, function, device, sources[0], targets[0])
    failures = 0
    with progress_bar() as bar:
        for source, target in bar.track(list(zip(sources, targets, strict=True)), description=args.filter):
            try:
                filter_file(args, function, device, source, target)
            except OptionError:
                raise
            except UsageError as error:
                failures += 1
                complain(args, str(error))
    if failures:
        raise UsageError(f"{failures} of {len(targets)} files were not filtered")


def filter_file(
    args: argparse.Namespace, function: Callable[[Tensor], Tensor], device: torch.device, source: Path, target: Path
) -> None:
    """Reads, filters and writes one file, and prints a line about it."""
    name = "standard input" if source is STANDARD else source
    content = read_file(source)
    picture = decoded(name, content, args.background)
    count = picture.pixels.shape[:-3].numel()
    if picture.axes and args.stack is None:
        raise UsageError(f"{name} holds {count} pages: --stack volume or --stack images says what they are")
    form = args.format or FORMS.get(target.suffix.lower()) or form_of(content)
    check_content("standard output" if target is STANDARD else target, picture.pixels, form)
    if args.stack == "volume":
        result = filter_volume(name, picture, function, device)
    else:
        result = filter_images(picture, function, device)
    if target is STANDARD:
        return write_image(target, result, form=form, resolution=picture.resolution)
    make_folder(target.parent)
    write_image(target, result, args.force, form, picture.resolution)
    c, h, w = result.shape[-3:]
    size = f"{count} pages of {w} x {h} pixels" if picture.axes else f"{w} x {h} pixels"
    numbers = {torch.uint8: "8 bits", torch.uint16: "16 bits"}.get(result.dtype) or str(result.dtype)[6:]
    print(f"{printable(target)}: {args.filter}, {size}, {'grey' if c == 1 else 'RGB'}, {numbers}, on {device}")


def filter_images(picture: Picture, function: Callable[[Tensor], Tensor], device: torch.device) -> Tensor:
    """Each page for itself, one at a time on the device."""
    pages = picture.pixels.reshape(-1, *picture.pixels.shape[-3:])
    with option_refusals():
        return torch.stack([function(page.to(device)).cpu() for page in pages]).reshape(picture.pixels.shape)


def filter_volume(name: object, picture: Picture, function: Callable[[Tensor], Tensor], device: torch.device) -> Tensor:
    """The pages along z as depth, for each channel and each position of other axes."""
    axes, pixels = picture.axes, picture.pixels
    if not axes:
        axes, pixels = "Z", pixels[None]
    if "Z" not in axes and (len(axes) > 1 or axes == "C"):
        raise UsageError(f"{name} is no volume: its pages have the axes {axes}, and none is Z")
    z = max(axes.find("Z"), 0)
    with option_refusals():
        result = function(pixels.movedim(z, -3).to(device))
    return result.cpu().movedim(-3, z).reshape(picture.pixels.shape)
