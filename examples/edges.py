"""The edges of a photograph, each picture made in one launch with one read and one write.

    python examples/edges.py                                # the cup of coffee that scikit-image ships
    python examples/edges.py --photo photo.jpg --device cpu --output edges.jpg

Prints the plan of every call. Draws the photograph, the magnitude of its gradient, its edges one pixel thin, and the
directions of the structure tensor: the colour is the direction, the brightness the strength.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))  # a checkout, after an installed package

import torch
from files import check_output, in_one_sentence, read, save, shipped
from torch import Tensor

import torch_conv
from torch_conv.cli.programs import device_named

SIZE, SIGMA = 5, 1.1  # of the Gaussian before the derivatives
LARGE, WIDE = 9, 2.0  # of the Gaussian after their products
WEAK, BRIGHT = 0.08, 0.995  # magnitudes: left out below this share of the one that so many do not reach


@in_one_sentence
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photo", type=Path, metavar="FILE", help="PNG, JPEG, ... (default: scikit-image's coffee)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="default: %(default)s")
    parser.add_argument("--output", type=Path, metavar="FILE", default=Path("edges.jpg"), help="default: %(default)s")
    args = parser.parse_args()
    check_output(args.output, args.photo)
    device = device_named(args.device)
    photo = read(args.photo or shipped("coffee.png"))
    image = luminance(photo).to(device)

    edges = explained(torch_conv.gaussian_sobel, image, SIZE, SIGMA)
    thin = explained(torch_conv.thin_edges, image, SIZE, SIGMA)
    tensor = explained(torch_conv.structure_tensor, image, LARGE, WIDE)

    large = bright(edges)
    pictures = {
        "photograph": photo.permute(1, 2, 0) / 255,
        "gaussian_sobel": 1 - (edges / large).clamp(0, 1),
        "thin_edges": 1 - torch.where(thin > WEAK * large, thin / large, 0).clamp(0, 1).sqrt(),
        "structure_tensor": directions(tensor),
    }
    draw(args.output, {title: picture.cpu() for title, picture in pictures.items()})
    print(f"{args.output} shows {' | '.join(pictures)}")


def explained(function: Callable[..., Tensor], *args: object) -> Tensor:
    """The result of a call in one launch, whose plan is printed first."""
    print(torch_conv.explain(function, *args, algorithm="fused"))
    return function(*args, algorithm="fused")


def luminance(photo: Tensor) -> Tensor:
    """A float image (H, W) of a photograph (C, H, W) of bytes."""
    weights = torch.tensor([0.299, 0.587, 0.114]) if photo.shape[0] == 3 else torch.ones(1)
    return (weights[:, None, None] * photo / 255).sum(0)


def directions(tensor: Tensor) -> Tensor:
    """A picture (H, W, 3) of a structure tensor's larger eigenvalue and its direction."""
    xx, xy, yy = tensor.unbind(-3)
    apart = torch.hypot(xx - yy, 2 * xy)
    strength = (0.5 * (xx + yy + apart)).sqrt()
    strength = (strength / bright(strength)).clamp(0, 1)
    turn = torch.atan2(2 * xy, xx - yy)  # twice the angle: a direction has no sign
    hue = torch.stack([torch.cos(turn - shift) for shift in (0.0, 2.0944, 4.1888)], -1)
    return strength[..., None] * (0.5 + 0.5 * hue)


def bright(x: Tensor) -> Tensor:
    """What all but the largest values stay below."""
    return x.flatten().kthvalue(max(1, int(BRIGHT * x.numel()))).values.clamp(min=1e-6)


def draw(path: Path, pictures: dict[str, Tensor]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height, width = next(iter(pictures.values())).shape[:2]
    figure = Figure(figsize=(9.2, 9.2 * height / width + 0.42), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    for axes, (title, picture) in zip(figure.subplots(2, 2).flat, pictures.items(), strict=True):
        axes.imshow(picture.numpy(), cmap="gray", vmin=0, vmax=1, interpolation="bilinear")
        axes.set_title(title, fontsize=12)
        axes.axis("off")
    save(figure, path, dpi=110, pil_kwargs={"quality": 82, "optimize": True})


if __name__ == "__main__":
    main()
