"""Failures of memory, of a device or of torch raise their error; calls leave limited memory and no locked mutex."""

import gc
import subprocess
import sys
import textwrap

import pytest
import torch
from kernel_files import run_python
from memory_use import heap_bytes, needs_mallinfo
from strategies import make_image, make_window
from tolerance import assert_same_bits

import torch_conv
from torch_conv.dispatch.failures import is_machine_failure
from torch_conv.functional._refusals import refusal_of

# The messages of torch 2.11 to 2.15.
FAILURES = [
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 8",
    "[enforce fail at alloc_cpu.cpp:117] data. DefaultCPUAllocator: not enough memory: you tried to allocate 8",
    "std::bad_alloc",
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB",
    "CUDA error: an illegal memory access was encountered",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "CUDA driver error: unknown error",
    "CUDA unknown error - this may be due to an incorrectly set up environment",
    "No CUDA GPUs are available",
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
    "CUDA driver initialization failed, you might not have a CUDA gpu.",
    "The NVIDIA driver on your system is too old: CUDA driver version is insufficient for CUDA runtime version",
    "CUDA-capable device(s) is/are busy or unavailable",
    "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
    "cuDNN Frontend error: [cudnn_frontend] Error: No execution plans support the graph.",
    "Unable to find a valid cuDNN algorithm to run convolution",
    "GET was unable to find an engine to execute this computation",
    "cuFFT error: CUFFT_ALLOC_FAILED",
    "MKL FFT error: Intel oneMKL DFTI ERROR: Memory Error",
    "could not create a primitive",
    "could not execute a primitive",
    "could not create a memory",
]
REFUSALS = [
    "Input type (CUDABoolType) and weight type (torch.FloatTensor) should be the same or input should be a "
    "MKLDNN tensor and weight is a dense tensor",
    "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
    "The MKLDNN backend does not support weight as an MKLDNN tensor during training",
    "Unsupported device type for mkldnn layout: XLA",
    "MKL FFT doesn't support tensors of type: Half",
    "cuFFT only supports dimensions whose sizes are powers of two when computing in half precision",
    "could not create a primitive descriptor for the convolution forward propagation primitive. Run workload with "
    "environment variable ONEDNN_VERBOSE=all to get additional diagnostic information.",
    "could not create a memory descriptor from blob",
    "expected all tensors to be on the same device, CUDA and CPU were found",
    "oneDNN is not built",
    "expected scalar type Float but found Int",
    "filter2d: kernel must be on cpu, as the input is, got CUDA error: no device",
]


@pytest.mark.parametrize("sentence", FAILURES)
def test_failures_of_torch_are_no_refusals(sentence):
    """A failure is not tried again, and hides behind no wrong argument."""
    error = RuntimeError(sentence)
    assert is_machine_failure(error)
    found = refusal_of("sobel", error)
    assert found is error or (type(found) is torch.OutOfMemoryError and sentence == "std::bad_alloc")


@pytest.mark.parametrize("sentence", REFUSALS)
def test_name_of_a_library_in_a_refusal_is_no_failure(sentence):
    assert not is_machine_failure(RuntimeError(sentence))
    found = refusal_of("sobel", RuntimeError(sentence))
    assert isinstance(found, (TypeError, ValueError))
    assert str(found).startswith("sobel: ")


def test_out_of_memory_error_of_torch_reaches_the_caller():
    error = torch.OutOfMemoryError("CUDA out of memory")
    assert refusal_of("sobel", error) is error


def test_an_operator_that_a_backend_lacks_is_a_refusal():
    error = NotImplementedError("Could not run 'aten::x' with arguments from the 'CUDA' backend. CUDA error")
    assert not is_machine_failure(error)


@pytest.mark.cuda
def test_out_of_memory_is_an_error_at_the_call(cuda):
    kernel = make_window((3, 3), device=cuda)
    torch.cuda.empty_cache()
    spare = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()  # of earlier tests, and free for the result
    image = make_image((64 + spare // 2**22, 1024, 1024), device=cuda)
    total = torch.cuda.get_device_properties(0).total_memory
    used = torch.cuda.memory_reserved()
    torch.cuda.set_per_process_memory_fraction((used + 2**26) / total)  # the result needs four times as much
    try:
        with pytest.raises(RuntimeError, match="out of memory"):
            torch_conv.filter2d(image, kernel)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert_same_bits(torch_conv.filter2d(image[0], kernel), torch_conv.filter2d(image, kernel)[0])


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ("torch_conv: box launch failed: invalid argument", RuntimeError, "sobel: box launch failed: invalid argument"),
        (
            "torch_conv: allocating failed: out of memory",
            torch.OutOfMemoryError,
            "sobel: allocating failed: out of memory",
        ),
        ("filter2d: stride must be at least 1, got 0", ValueError, "sobel: stride must be at least 1, got 0"),
    ],
)
def test_failures_of_the_machine_are_no_refusals(text, kind, sentence):
    error = refusal_of("sobel", RuntimeError(text))
    assert type(error) is kind
    assert str(error) == sentence


def test_a_window_that_memory_does_not_hold():
    """A thread's rows of an absurd window; the next good call works."""
    code = """
import resource
image = torch.rand(3, 64, 64)
good = torch_conv.unsharp_mask(image, 31, 9.0)
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + 2**27,) * 2)
try:
    torch_conv.unsharp_mask(image, 999_999, 9.0)
except torch.OutOfMemoryError as error:
    print(error)
assert torch.equal(torch_conv.unsharp_mask(image, 31, 9.0), good)
"""
    assert run_python(code) == "unsharp_mask: there is not enough memory\n"


def test_a_transform_that_memory_does_not_hold():
    """A filter by FFT fails at one step of torch's after another: each failure is reported, no result is wrong."""
    code = """
import ctypes, resource
ctypes.CDLL(None).mallopt(-3, 1 << 16)  # M_MMAP_THRESHOLD: freed blocks return to the system
image, window = torch.rand(1500, 1500), torch.rand(33, 33)
out = torch.empty_like(image)
torch.set_num_threads(1)
good = torch_conv.filter2d(image, window, algorithm="fft")
failed = 0
for more in (3, 6, 12, 25, 50, 100):
    taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + more * 2**20, -1))
    try:
        torch_conv.filter2d(image, window, algorithm="fft", out=out)
    except torch.OutOfMemoryError as error:
        assert str(error).startswith("filter2d: "), error
        failed += 1
    else:
        assert torch.equal(out, good)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
torch_conv.filter2d(image, window, algorithm="fft", out=out)
assert torch.equal(out, good)
print(failed > 0)
"""
    assert run_python(code) == "True\n"


def test_a_convolution_that_memory_does_not_hold():
    """The operator refuses; the functions pass on torch's own errors."""
    image = torch.zeros(1, 16, 1, 1).expand(1, 16, 2_000_000, 2_000_000)  # beyond every address space
    with pytest.raises(RuntimeError, match="out of memory|not enough memory") as caught:
        torch.ops.torch_conv.conv2d(image, torch.zeros(16, 16, 3, 3))
    assert "API call failed" not in str(caught.value)


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
