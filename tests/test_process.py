"""Calls leave limited memory in a process and its children, and no locked mutex."""

import gc
import subprocess
import sys
import textwrap

import pytest
import torch
from memory_use import heap_bytes, needs_mallinfo
from strategies import make_image

import torch_conv

MOST_BYTES = 48 << 20


@pytest.mark.thorough
@needs_mallinfo
def test_recorded_calls_hold_few_bytes():
    """A recorded call keeps the values of a window that it was decided by; there are many windows."""
    image = make_image((64, 64))

    def run(k: int) -> None:
        taps = torch.rand(k)
        torch_conv.filter2d(image, torch.outer(taps, taps))  # by two passes, as its values say

    run(301)
    gc.collect()
    before = heap_bytes()
    for k in range(301, 601, 2):
        run(k)
    gc.collect()
    assert heap_bytes() - before < MOST_BYTES


@pytest.mark.thorough
def test_children_do_not_inherit_held_locks():
    """fork() while other threads are recording calls: a child that found a mutex locked would wait for ever."""
    script = """
        import os, threading, torch, torch_conv
        torch.set_num_threads(1)
        images, window, over = [torch.rand(1, 1, 3, 3 + i) for i in range(600)], torch.ones(3, 3), threading.Event()

        def work():
            while not over.is_set():
                for image in images:
                    torch_conv.filter2d(image, window)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for child in range(40):
            pid = os.fork()
            if pid == 0:
                for image in images[:3]:
                    torch_conv.filter2d(image, window)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        over.set()
        for thread in threads:
            thread.join()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=50)
