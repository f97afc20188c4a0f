"""Layers of networks: depthwise convolutions, convolutions of few channels, causal ones and their steps."""

from __future__ import annotations

import random
import typing

import torch

from torch_conv import typing as words
from torch_conv.bench.anywhere.call import INNER, PLANAR, Taps
from torch_conv.bench.anywhere.filters import Arguments, Filter
from torch_conv.bench.anywhere.sources import Source

# Channels, side and window of depthwise layers: MobileNet, EfficientNet, ConvNeXt, RepLKNet.
IMAGE_LAYERS = (
    (32, 112, 3),
    (96, 112, 3),
    (144, 56, 5),
    (240, 28, 5),
    (672, 14, 5),
    (1152, 7, 3),
    (96, 56, 7),
    (192, 28, 7),
    (384, 14, 7),
    (768, 7, 7),
    (128, 64, 31),
    (384, 32, 13),
)
VOLUME_LAYERS = ((24, (16, 56, 56)), (64, (16, 28, 28)), (128, (8, 14, 14)), (32, (48, 48, 48)), (32, (8, 112, 112)))
# Channels, length and window: Conformer, wav2vec, EEG, TCN.
SIGNAL_LAYERS = ((256, 500, 31), (512, 999, 15), (768, 1024, 3), (64, 5000, 7), (144, 300, 32), (40, 1125, 64))
MAMBA = ((1536, 1024), (2048, 4096), (3072, 512), (4096, 2048), (5120, 256))


def layout(rng: random.Random) -> str:
    return rng.choice((PLANAR, INNER))


def images(rng: random.Random, dtype: torch.dtype) -> Source:
    if rng.random() < 0.15:
        return Source("layer of few channels", (rng.choice((1, 4)), rng.choice((1, 3)), 256, 384), layout(rng))
    c, side, _ = rng.choice(IMAGE_LAYERS)
    return Source("layer", (rng.choice((1, 8, 32, 64)), c, side, side), layout(rng))


def volumes(rng: random.Random, dtype: torch.dtype) -> Source:
    if rng.random() < 0.15:
        return Source("layer of few channels", (1, 1, 64, 96, 96), layout(rng))
    c, shape = rng.choice(VOLUME_LAYERS)
    return Source("layer", (rng.choice((1, 4, 8)), c, *shape), layout(rng))


def signals(rng: random.Random, dtype: torch.dtype) -> Source:
    c, length, _ = rng.choice(SIGNAL_LAYERS)
    return Source("layer", (rng.choice((1, 8, 32, 64)), c, length), layout(rng))


def window_of(rng: random.Random, source: Source) -> int:
    """The window of the layer with these channels, or 3."""
    axes = len(source.shape) - 2
    if axes == 3:
        return rng.choice((3, 3, 3, 5, 7))
    known = {c: k for c, _, k in (IMAGE_LAYERS if axes == 2 else SIGNAL_LAYERS)}
    return known.get(source.shape[1], 5) if rng.random() < 0.7 else rng.choice((3, 5, 7))


def convolution(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    axes, channels = len(source.shape) - 2, source.shape[1]
    few = channels <= 3
    k = window_of(rng, source)
    out, groups, inputs = (rng.choice((1, 2, 4)), 1, channels) if few else (channels, channels, 1)
    if not few and rng.random() < 0.1:
        out *= 2
    found = Arguments({"groups": groups}, {"weight": Taps("weights", (out, inputs, *[k] * axes))})
    if rng.random() < 0.5:
        found.tensors["bias"] = Taps("bias", (out,))
    dilation = 2 if rng.random() < 0.1 else 1
    found.options["padding"] = dilation * (k // 2)
    if dilation > 1:
        found.options["dilation"] = dilation
    elif rng.random() < 0.25:
        found.options["stride"] = 2
    if rng.random() < 0.2:
        found.options["activation"] = rng.choice(typing.get_args(words.Activation))
    if rng.random() < 0.1:
        found.options["padding_mode"] = rng.choice(typing.get_args(words.PaddingMode))
    return found


def sequences(rng: random.Random, dtype: torch.dtype) -> Source:
    d, length = rng.choice(MAMBA)
    return Source("sequences", (rng.choice((1, 2, 4, 8)), d, length), layout(rng))


def tokens(rng: random.Random, dtype: torch.dtype) -> Source:
    """The next elements of each sequence: one, or several of speculative decoding."""
    d, _ = rng.choice(MAMBA)
    length = rng.choice((1, 1, 1, 4, 8))
    return Source("next tokens", (rng.choice((1, 8, 64, 256)), d, length), INNER if length > 1 else PLANAR)


def causal(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    d = source.shape[1]
    found = Arguments({}, {"weight": Taps("weights", (d, rng.choice((4, 4, 4, 2, 3, 7))))})
    if rng.random() < 0.7:
        found.tensors["bias"] = Taps("bias", (d,))
    if rng.random() < 0.8:
        found.options["activation"] = rng.choice(typing.get_args(words.SequenceActivation))
    return found


def update(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    found = causal(rng, source, dtype)
    _, k = found.tensors["weight"].shape
    found.tensors = {"conv_state": Taps("state", (*source.shape[:2], rng.choice((k - 1, k)))), **found.tensors}
    return found


LAYERS = {
    "conv1d": Filter(convolution, signals),
    "conv2d": Filter(convolution, images),
    "conv3d": Filter(convolution, volumes),
    "causal_conv1d": Filter(causal, sequences),
    "causal_conv1d_update": Filter(update, tokens),
}
