"""What goes wrong between ranks."""

from __future__ import annotations

import re

import torch.distributed as dist


class RankError(RuntimeError):
    """Another rank refused its part of a call, or called something else."""


class ExchangeError(RuntimeError):
    """torch.distributed could not carry a message: a rank is gone, or does not answer."""


def waited_for(work: dist.Work) -> None:
    """Waits, in the way of the backend; what goes wrong there is no refusal of an argument."""
    try:
        work.wait()
    except RuntimeError as error:
        said = re.sub(r"^\[[^]]*\] *", "", str(error).splitlines()[0])  # without the place in torch's sources
        raise ExchangeError(f"the exchange between ranks failed: {said}") from error
