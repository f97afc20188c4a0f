"""`torch-conv filter IN OUT --filter NAME`: filters one image."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from torch import Tensor

import torch_conv
from torch_conv import kernels
from torch_conv.bench.usage import UsageError
from torch_conv.cli import add_force, printable, user_arguments, whole_number
from torch_conv.cli._images import JPEG_QUALITY, check_depth, check_output, device_named, write_image
from torch_conv.cli._pictures import BACKGROUNDS, read_picture
from torch_conv.dispatch.borders import BORDERS

# Filters of more than one kernel: (image, size, sigma, border) -> image.
FUNCTIONS: dict[str, Callable[[Tensor, int, float, torch_conv.typing.Border], Tensor]] = {
    "gaussian": lambda x, size, sigma, border: torch_conv.gaussian_blur2d(x, size, sigma, border),
    "sobel": lambda x, size, sigma, border: torch_conv.sobel(x, normalized=False, border_type=border),
    "unsharp": lambda x, size, sigma, border: torch_conv.unsharp_mask(x, size, sigma, border),
}
NAMES = sorted({"box", *FUNCTIONS, *kernels.names()})
FILTERS = f"Filters: {', '.join(NAMES)}."
DEFAULT_SIZES = {"box": 9, "gaussian": 9, "unsharp": 9}  # every other filter is a 3 x 3 stencil


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "filter",
        help="filter one photograph",
        description="Filter one photograph of 8 or 16 bits a channel: PNG, JPEG, GIF, WebP or TIFF in; PNG, TIFF or "
        f"JPEG (quality {JPEG_QUALITY}, 8 bits) out, as OUT ends. Channels of 16 bits keep them. Colours of a palette "
        "become RGB, black and white become grey, and the picture is turned as its EXIF orientation says. Refused: "
        "several pictures in a file, CMYK, floating-point numbers, transparency without --background, and an OUT that "
        "exists without --force. EXIF data and colour profiles are not written.",
        epilog=f"{FILTERS} 'sobel' is the gradient's magnitude; the _x and _y windows keep only "
        "positive slopes, because such images have no negative values.",
    )
    parser.add_argument("input", metavar="IN", type=Path, help="the photograph")
    parser.add_argument("output", metavar="OUT", type=Path, help="the filtered photograph, .png, .tif or .jpg")
    add_options(parser)
    parser.add_argument(
        "--background",
        metavar="NAME",
        choices=BACKGROUNDS,
        help=f"beneath transparent pixels: {' | '.join(BACKGROUNDS)}",
    )
    add_force(parser)
    parser.set_defaults(run=run)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that filter_of() and device_named() read."""
    parser.add_argument("--filter", metavar="NAME", required=True, choices=NAMES, help="which filter (listed below)")
    parser.add_argument("--size", metavar="K", type=whole_number, help="window size in pixels (default: 9, stencils 3)")
    parser.add_argument("--sigma", metavar="S", type=float, help="Gaussian's sigma in pixels (default: suits the size)")
    parser.add_argument("--border", metavar="NAME", choices=BORDERS, default="reflect", help=" | ".join(BORDERS))
    parser.add_argument(
        "--anchor",
        metavar="Y,X",
        type=anchor_given,
        help="the tap that lies on the pixel, counted from the window's top left; one number for both, -1 is K // 2 "
        "(default: (K - 1) // 2); for 'box' and the single windows",
    )
    parser.add_argument("--device", metavar="D", help="cpu, cuda or cuda:N (default: the GPU, where there is one)")


def filter_of(args: argparse.Namespace) -> Callable[[Tensor], Tensor]:
    """The filter of an image that the options name."""
    size = DEFAULT_SIZES.get(args.filter, 3) if args.size is None else args.size
    if size < 1:
        raise UsageError(f"--size must be at least 1, got {size}")
    if args.filter == "sobel" and size != 3:
        raise UsageError(f"--size of sobel must be 3, got {size}")
    if args.sigma is not None and args.filter not in ("gaussian", "unsharp"):
        raise UsageError(f"--sigma has no meaning for {args.filter}")
    if args.anchor is not None and args.filter in FUNCTIONS:
        raise UsageError(f"--anchor has no meaning for {args.filter}")
    sigma = kernels.default_sigma(size) if args.sigma is None else args.sigma
    if args.filter in FUNCTIONS:
        return lambda image: FUNCTIONS[args.filter](image, size, sigma, args.border)
    if args.filter == "box":
        return lambda image: torch_conv.box_blur(image, size, args.border, anchor=args.anchor)
    try:
        with user_arguments():
            window = kernels.named(args.filter, size)
    except UsageError as error:
        raise UsageError(str(error).replace("named: size", "--size", 1)) from error
    return lambda image: torch_conv.filter2d(image, window, args.border, anchor=args.anchor)


def anchor_given(text: str) -> int | tuple[int, int]:
    """One number or two, as the functions' `anchor`."""
    try:
        numbers = [int(number) for number in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) == 1:
        return numbers[0]
    if len(numbers) == 2:
        return numbers[0], numbers[1]
    raise argparse.ArgumentTypeError(f"must be Y,X or one number for both, got {text}")


def run(args: argparse.Namespace) -> None:
    function = filter_of(args)
    device = device_named(args.device)
    check_output(args.output, args.force)
    image = read_picture(args.input, args.background)
    check_depth(args.output, image.dtype)
    with user_arguments():
        result = function(image.to(device))
    write_image(args.output, result, args.force)
    c, h, w = result.shape
    colours = "grey" if c == 1 else "RGB"
    about = f"{args.filter}, {w} x {h} pixels, {colours}, {8 * result.element_size()} bits, on {device}"
    print(f"{printable(args.output)}: {about}")
