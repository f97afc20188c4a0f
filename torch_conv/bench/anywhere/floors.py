"""The least time of a call on this machine, by rates that are measured in the same run.

Bytes move as fast as the better of `copy_` and `add` moves as many. Multiply-adds are those of `work.py`, at the rate
of a loop of multiply-adds, or of matrix products on tensor cores for dtypes whose products they compute exactly.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch

from torch_conv.bench.anywhere.call import Call
from torch_conv.bench.anywhere.work import TENSOR_CORE_PARTS, multiply_adds
from torch_conv.bench.common import Candidate
from torch_conv.bench.copies import COPIES
from torch_conv.bench.timing import time_call

# Eight independent chains of multiply-adds an element: arithmetic alone, since an element is read and written once.
CHAINS, LINKS = 8, 512
LOOP = f"""
template <typename T> T chains(T x, T y) {{
  T sums[{CHAINS}];
  #pragma unroll
  for (int i = 0; i < {CHAINS}; ++i) sums[i] = x + T(i);
  for (int n = 0; n < {LINKS}; ++n) {{
    #pragma unroll
    for (int i = 0; i < {CHAINS}; ++i) sums[i] = sums[i] * y + x;
  }}
  T total = sums[0];
  #pragma unroll
  for (int i = 1; i < {CHAINS}; ++i) total += sums[i];
  return total;
}}
"""
ELEMENTS = 1 << 22  # of the loop: some waves of blocks on any GPU
SIDE = {"cuda": 8192, "cpu": 1024}  # of the matrices
SIDE_FLOAT64 = {"cuda": 4096, "cpu": 1024}
SAMPLES = 9  # the fastest counts: what the machine can do
HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Rate:
    """Multiply-adds a second, and what was timed."""

    per_second: float
    by: str


@dataclass(frozen=True)
class Rates:
    float32: Rate
    float64: Rate
    tensor_cores: Rate | None  # of half precision with sums in float32

    def metadata(self) -> dict[str, Any]:
        return asdict(self)

    def seconds(self, call: Call) -> float:
        """Of the call's arithmetic."""
        count = multiply_adds(call)
        plain = count / (self.float64 if call.dtype == torch.float64 else self.float32).per_second
        if self.tensor_cores is None or call.dtype not in TENSOR_CORE_PARTS:
            return plain
        return min(plain, TENSOR_CORE_PARTS[call.dtype] * count / self.tensor_cores.per_second)


def measure_rates(device: str) -> Rates:
    """The rates of this machine, in some tenths of a second."""
    kinds = (torch.float32, torch.float64)
    full, double = (max(rates_of(device, dtype), key=lambda rate: rate.per_second) for dtype in kinds)
    halves = [matrix_rate(device, dtype) for dtype in HALVES] if device == "cuda" else []
    return Rates(full, double, max(halves, key=lambda rate: rate.per_second, default=None))


def rates_of(device: str, dtype: torch.dtype) -> list[Rate]:
    """By a matrix product, and on a GPU by the loop, where torch can compile it."""
    found = [matrix_rate(device, dtype)]
    if device == "cuda":
        try:
            found.append(loop_rate(dtype))
        except RuntimeError as error:  # torch cannot compile here
            print(f"the rate of {dtype} is that of a matrix product: {str(error).splitlines()[0][:100]}", flush=True)
    return found


def matrix_rate(device: str, dtype: torch.dtype) -> Rate:
    n = (SIDE_FLOAT64 if dtype == torch.float64 else SIDE)[device]
    a, b = (torch.rand(n, n, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    seconds = min(time_call(partial(torch.matmul, a, b, out=out), device, repeats=SAMPLES))
    return Rate(n**3 / seconds, "a matrix product")


def loop_rate(dtype: torch.dtype) -> Rate:
    chains = torch.cuda.jiterator._create_jit_fn(LOOP)
    x = torch.rand(ELEMENTS, device="cuda", dtype=dtype)
    y = torch.full_like(x, 0.5)
    seconds = min(time_call(partial(chains, x, y), "cuda", repeats=SAMPLES))
    return Rate(ELEMENTS * CHAINS * LINKS / seconds, "a loop of multiply-adds")


def cache_bytes(device: str) -> int:
    """The size of the last cache."""
    if device == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    try:
        with open("/sys/devices/system/cpu/cpu0/cache/index3/size") as file:
            return int(file.read().strip().removesuffix("K")) << 10
    except (OSError, ValueError):
        return 32 << 20


def copies(device: str, moved: int, count: int) -> list[Candidate]:
    """The two copies that move so many bytes, over `count` pairs of buffers."""
    numbers = max(1, moved // 8)  # half of them read, half written, as float32
    pairs = [(torch.rand(numbers, device=device), torch.empty(numbers, device=device)) for _ in range(count)]
    calls = (lambda pair: pair[1].copy_(pair[0]), lambda pair: torch.add(pair[0], 1, out=pair[1]))
    return [
        Candidate(name, call, prepare=partial(list.__getitem__, pairs))
        for name, call in zip(COPIES, calls, strict=True)
    ]
