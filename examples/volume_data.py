"""The volumes of the example: NIfTI files as tensors (Z, Y, X) with their voxel sizes, and a CT phantom."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_conv.cli.programs import UsageError

NATIVE = (torch.uint8, torch.int16, torch.uint16, torch.float32)  # kept; everything else becomes float32
TEMPLATE = "datasets/data/mni_icbm152_t1_tal_nlin_sym_09a_converted.nii.gz"  # shipped by nilearn
SERIES = "example4d.nii.gz"  # shipped by nibabel


@dataclass(frozen=True)
class Volume:
    name: str
    data: Tensor  # (Z, Y, X) or, a series, (T, Z, Y, X); z up, y to the front, x to the right
    voxel: tuple[float, float, float]  # mm along z, y, x
    origin: tuple[float, float, float]  # mm of voxel 0 along z, y, x


def read_nifti(path: Path, name: str | None = None) -> Volume:
    """A NIfTI file, its axes turned and flipped to the nearest anatomical ones; 4-D files keep T in front."""
    import numpy

    nibabel: Any = importlib.import_module("nibabel")
    try:
        image = nibabel.as_closest_canonical(nibabel.load(path))
        array = numpy.asanyarray(image.dataobj).squeeze().T  # x is the fastest axis in the file: (T, Z, Y, X), C order
    except (OSError, nibabel.filebasedimages.ImageFileError) as error:
        raise UsageError(f"{path} is not a NIfTI file that can be read: {error}") from error
    if array.ndim not in (3, 4):
        raise UsageError(f"{path} must hold a volume or a series of volumes, got {array.ndim} dimensions")
    array = numpy.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    if array.dtype.name not in [str(d).removeprefix("torch.") for d in NATIVE]:
        array = array.astype(numpy.float32)
    z, y, x = (float(size) for size in nibabel.affines.voxel_sizes(image.affine)[2::-1])
    oz, oy, ox = (float(mm) for mm in image.affine[2::-1, 3])
    data = torch.from_numpy(array if array.flags.writeable else array.copy())
    return Volume(name or path.name.split(".")[0], data, (z, y, x), (oz, oy, ox))


def template() -> Volume | None:
    """The MNI ICBM152 average of 152 brains, T1, 1 mm, uint8; None where nibabel or nilearn is not installed.

    Only the file is read: importing nilearn would bring pandas and scikit-learn along.
    """
    spec = importlib.util.find_spec("nilearn")
    if spec is None or spec.origin is None or importlib.util.find_spec("nibabel") is None:
        return None
    path = Path(spec.origin).parent / TEMPLATE
    return read_nifti(path, "MNI152 T1") if path.is_file() else None


def series() -> Volume | None:
    """Two volumes of a functional MR series, int16, 2 x 2 x 2.2 mm; None where nibabel is not installed."""
    if importlib.util.find_spec("nibabel") is None:
        return None
    testing: Any = importlib.import_module("nibabel.testing")
    path = Path(testing.data_path) / SERIES
    return read_nifti(path, "fMRI series") if path.is_file() else None


def phantom(n: int, device: torch.device) -> Volume:
    """A body in Hounsfield units, n^3 voxels over 38 cm: skin, ribs, lungs, spine, aorta, lesions, and noise; int16."""
    axis = torch.linspace(-1, 1, n, device=device)
    z, y, x = axis[:, None, None], axis[None, :, None], axis[None, None, :]

    def inside(cz: float, cy: float, cx: float, rz: float, ry: float, rx: float) -> Tensor:
        return ((z - cz) / rz).square() + ((y - cy) / ry).square() + ((x - cx) / rx).square() <= 1

    hu = torch.full((n, n, n), -1000.0, device=device)
    hu[inside(0, 0, 0, 2.0, 0.72, 0.92)] = -90  # fat
    hu[inside(0, 0, 0, 2.0, 0.66, 0.86)] = 50  # muscle
    cage = inside(0, 0.02, 0, 1.6, 0.60, 0.79) & ~inside(0, 0.02, 0, 1.5, 0.56, 0.75)
    hu[cage & (torch.sin(14 * z + 3 * y) > 0.2)] = 700  # ribs
    for side in (-1, 1):
        hu[inside(0.1, 0.05, 0.40 * side, 0.85, 0.46, 0.28)] = -820  # lungs
    hu[inside(0.0, 0.22, 0.10, 0.42, 0.27, 0.24)] = 60  # heart
    hu[inside(0, -0.40, 0, 2.0, 0.13, 0.15)] = 450  # spine
    hu[inside(0, -0.38, 0, 2.0, 0.05, 0.06)] = 30  # its canal
    hu[inside(0, -0.14, 0.13, 2.0, 0.07, 0.07)] = 300  # aorta, with contrast agent
    for i, radius in enumerate((0.02, 0.03, 0.045, 0.06)):
        hu[inside(0.02 * i, 0.30 - 0.17 * i, -0.40, radius, radius, radius)] = 40  # lesions in a lung
    generator = torch.Generator(device).manual_seed(0)
    for plane in hu:  # plane by plane: no second volume of noise
        plane.add_(torch.randn(plane.shape, generator=generator, device=device), alpha=60.0)
    mm = 380.0 / n
    return Volume("CT phantom", hu.round_().clamp_(-1024, 3071).to(torch.int16), (mm, mm, mm), (-190.0,) * 3)
