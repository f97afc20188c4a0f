"""Processes for tests that need several: on the CPU they are forks of one that has imported torch already."""

import torch.multiprocessing as mp

# Importing these takes a process some seconds of a core, and groups of four start on machines of two.
_IMPORTED = ["torch", "torch._dynamo", "torch.distributed.tensor", "hypothesis", "pytest"]


def context(device: str = "cpu"):
    """The context of processes for that device. CUDA does not survive a fork, so these processes are new ones."""
    if device == "cuda":
        return mp.get_context("spawn")
    server = mp.get_context("forkserver")
    server.set_forkserver_preload(_IMPORTED)
    return server
