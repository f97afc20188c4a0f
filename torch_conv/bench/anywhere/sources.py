"""What people filter: the shapes and memory layouts of photos, video, stacks, tiles, volumes and signals."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from torch_conv.bench.anywhere.call import CROP, INNER, INNER_CROP, PLANAR, log_uniform


@dataclass(frozen=True)
class Source:
    """An image without its values."""

    name: str
    shape: tuple[int, ...]
    layout: str = PLANAR
    spacing: tuple[float, ...] = (1.0, 1.0, 1.0)  # millimetres between voxels, z, y, x


Draw = Callable[[random.Random], Source]

# Rows and columns of cameras and screens, 0.1 to 100 megapixels.
SENSORS = (
    (256, 384),
    (480, 640),
    (720, 1280),
    (1080, 1920),
    (1536, 2048),
    (2160, 3840),
    (3024, 4032),
    (4000, 6000),
    (5504, 8256),
    (8708, 11608),
)


def photo(rng: random.Random) -> Source:
    """A photograph, planar or (H, W, C), upright or not, of three colours, of four with alpha, or grey."""
    h, w = rng.choice(SENSORS)
    if rng.random() < 0.25:
        h, w = w, h
    channels = rng.choice((3, 3, 3, 4, 1))
    return Source("photo", (channels, h, w), INNER if channels > 1 and rng.random() < 0.5 else PLANAR)


def crop(rng: random.Random) -> Source:
    """A part of a larger photograph: its rows start at any address."""
    h, w = rng.randint(200, 2500), rng.randint(200, 3500)
    channels = rng.choice((1, 3, 3))
    return Source("crop of a photo", (channels, h, w), INNER_CROP if channels > 1 and rng.random() < 0.4 else CROP)


def odd(rng: random.Random) -> Source:
    """Any size, mostly of rows that are not aligned."""
    return Source("image of any size", (rng.choice((1, 1, 3)), rng.randint(150, 3000), rng.randint(150, 3000)))


def video(rng: random.Random) -> Source:
    h, w = rng.choice(((480, 854), (720, 1280), (1080, 1920), (2160, 3840)))
    return Source("video", (rng.choice((2, 4, 8, 16, 30)), 3, h, w), rng.choice((PLANAR, PLANAR, INNER)))


def training(rng: random.Random) -> Source:
    """A batch of augmented images."""
    side = rng.choice((128, 224, 256, 384, 512))
    return Source("batch of images", (rng.choice((16, 32, 64, 128)), 3, side, side), rng.choice((PLANAR, INNER)))


def small(rng: random.Random) -> Source:
    side = rng.choice((28, 32, 48, 64, 96, 128))
    return Source("stack of small images", (rng.choice((1, 64, 256, 1024)), rng.choice((1, 3)), side, side))


def features(rng: random.Random) -> Source:
    """Feature maps inside a network."""
    c, side = rng.choice(((32, 112), (64, 56), (96, 56), (128, 28), (256, 28), (512, 14)))
    return Source("feature maps", (rng.choice((1, 8, 32)), c, side, side), rng.choice((PLANAR, INNER)))


def microscopy(rng: random.Random) -> Source:
    h, w = rng.choice(((512, 512), (1024, 1024), (2048, 2048), (2160, 2560)))
    return Source("microscopy stack", (rng.choice((1, 8, 24, 60)), h, w))


def satellite(rng: random.Random) -> Source:
    side = rng.choice((256, 512, 1098, 5490, 10980))
    return Source("satellite tile", (rng.choice((1, 4, 8, 13)), side, side), rng.choice((PLANAR, PLANAR, INNER)))


def scan(rng: random.Random) -> Source:
    return Source("scanned page", rng.choice(((3508, 2480), (7016, 4960), (1654, 2339))))


def slices(rng: random.Random) -> Source:
    """CT or MRI, slice by slice."""
    return Source("CT slices", (rng.choice((1, 40, 120)), *rng.choice(((512, 512), (256, 256), (320, 260)))))


def ct(rng: random.Random) -> Source:
    """512 x 512 voxels a slice; the distance of slices is up to ten times that of voxels."""
    xy = round(rng.uniform(0.5, 0.98), 2)
    planes, z = rng.choice((40, 64, 133, 256, 420)), rng.choice((1.0, 2.5, 5.0))
    return Source("CT volume", (planes, 512, 512), PLANAR, (z, xy, xy))


def mri(rng: random.Random) -> Source:
    shape = rng.choice(((197, 233, 189), (182, 218, 182), (160, 256, 256), (24, 320, 320), (30, 448, 448)))
    thick = 5.0 if shape[0] < 50 else 1.0
    return Source("MRI volume", shape, PLANAR, (thick, 0.8 if thick > 1 else 1.0, 0.8 if thick > 1 else 1.0))


def z_stack(rng: random.Random) -> Source:
    """A confocal or light-sheet stack, one channel or several."""
    shape = (rng.choice((16, 31, 64, 120)), *rng.choice(((512, 512), (1024, 1024), (2048, 2048))))
    lead = rng.choice(((), (), (2,)))
    return Source("microscopy volume", (*lead, *shape), PLANAR, (0.5, 0.16, 0.16))


def patches(rng: random.Random) -> Source:
    """A batch of patches, as a segmentation network is trained on."""
    side = rng.choice((32, 64, 96, 128))
    return Source("patches of volumes", (rng.choice((1, 2, 4, 8)), rng.choice((1, 1, 2, 4)), side, side, side))


def functional_mri(rng: random.Random) -> Source:
    return Source("functional MRI", (rng.choice((20, 100)), 36, 64, 64), PLANAR, (3.0, 3.0, 3.0))


def seismic(rng: random.Random) -> Source:
    return Source("seismic volume", (rng.randint(100, 400), rng.randint(100, 500), rng.randint(200, 600)))


def signal(rng: random.Random) -> Source:
    shapes = ((2, 441000), (1, 64, 15000), (128, 12, 5000), (32, 80, 3000), (8, 1, 160000), (4096, 333))
    return Source("signals", rng.choice(shapes))


U8, I16, U16 = torch.uint8, torch.int16, torch.uint16
F32, F16, BF16, F64 = torch.float32, torch.float16, torch.bfloat16, torch.float64

# Which dtypes an image comes in where it is taken, or is computed in.
IMAGES: Sequence[tuple[Draw, tuple[torch.dtype, ...]]] = (
    (photo, (U8, F32, F16, BF16, U16, F64)),
    (crop, (U8, F32, F16, U16, F64)),
    (odd, (U8, F32, F16, BF16, F64, I16, U16)),
    (video, (U8, F32, F16, BF16)),
    (training, (F32, F16, BF16, U8)),
    (small, (F32, F16, BF16, U8, F64)),
    (features, (F32, F16, BF16)),
    (microscopy, (U16, F32, F64, U8)),
    (satellite, (U16, I16, F32, F64)),
    (scan, (U8, F32, U16)),
    (slices, (I16, F32, F64, U16)),
)
VOLUMES: Sequence[tuple[Draw, tuple[torch.dtype, ...]]] = (
    (ct, (I16, F32, F64, F16, U8)),
    (mri, (F32, I16, U16, F64, F16, BF16, U8)),
    (z_stack, (U16, U8, F32)),
    (patches, (F32, F16, BF16, F64, U8)),
    (functional_mri, (F32, F64, I16)),
    (seismic, (F32, F64, I16, F16, BF16)),
)


def image(rng: random.Random, dtype: torch.dtype) -> Source:
    return rng.choice([draw for draw, dtypes in IMAGES if dtype in dtypes])(rng)


def volume(rng: random.Random, dtype: torch.dtype) -> Source:
    return rng.choice([draw for draw, dtypes in VOLUMES if dtype in dtypes])(rng)


def tensor(rng: random.Random, dtype: torch.dtype) -> Source:
    """What filter1d takes: signals mostly."""
    if rng.random() < 0.6:
        return signal(rng)
    return image(rng, dtype) if rng.random() < 0.7 else volume(rng, dtype)


def sigma_of(rng: random.Random, spacing: Sequence[float]) -> tuple[float, ...] | float:
    """Standard deviations in voxels of one length in millimetres; a number where voxels are cubes."""
    length = log_uniform(rng, 0.6, 3.0) * spacing[-1]
    sigmas = tuple(float(f"{max(0.3, length / step):.3g}") for step in spacing)
    return sigmas[0] if len({*sigmas}) == 1 else sigmas
