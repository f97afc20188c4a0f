"""A model that uses torch_conv, for main.cpp: as an AOTInductor package for each device, and as a TorchScript module.

    python examples/cpp/export.py build/cpp_model

Beside them goes what C++ must compute, expected.pt. AOTInductor compiles C++: half a minute.
"""

import argparse
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent.parent))  # a checkout, after an installed package

import torch
from torch import Tensor

import torch_conv


class Edges(torch.nn.Module):
    """Edges of a smoothed image whose channels go through a depthwise layer, beside a mean."""

    weight: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.rand(3, 1, 3, 3, generator=torch.Generator().manual_seed(1)) / 9)

    def forward(self, x: Tensor) -> Tensor:
        smooth = torch_conv.gaussian_blur2d(x, 7, 1.5)
        mixed = torch_conv.conv2d(smooth, self.weight, padding=1, groups=3)
        return torch_conv.sobel(mixed) + torch_conv.box_blur(x, (3, 5), "constant", value=1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the files go; it is made")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    model = Edges()
    for device in ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]:
        compile_for(device, model, folder / f"model_{device}.pt2")
    torch.jit.script(model.cpu()).save(str(folder / "model.pt"))
    torch.save(expected(model), folder / "expected.pt")
    print(f"{folder} holds {', '.join(sorted(path.name for path in folder.iterdir()))}")


@torch.no_grad()
def compile_for(device: str, model: torch.nn.Module, package: Path) -> None:
    """Images of any number, height and width, not only the example's: the program filters others."""
    example = torch.rand(2, 3, 48, 64, device=device)
    batch = torch.export.Dim("batch", min=1, max=64)
    height, width = torch.export.Dim("height", min=8, max=8192), torch.export.Dim("width", min=8, max=8192)
    shapes = {"x": {0: batch, 2: height, 3: width}}
    program = torch.export.export(model.to(device), (example,), dynamic_shapes=shapes)
    torch._inductor.aoti_compile_and_package(program, package_path=str(package))


@torch.no_grad()
def expected(model: torch.nn.Module) -> dict[str, Tensor]:
    image = torch.rand(1, 3, 90, 131, generator=torch.Generator().manual_seed(2))
    window = torch_conv.kernels.sharpen()
    return {
        "image": image,
        "window": window,
        "filter2d": torch_conv.filter2d(image, window, "replicate"),
        "gaussian_blur2d": torch_conv.gaussian_blur2d(image, 7, 1.5),
        "model": model(image),
    }


if __name__ == "__main__":
    main()
