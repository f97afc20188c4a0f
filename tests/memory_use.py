"""The bytes that this process holds, as the C library and the kernel count them."""

import ctypes
from pathlib import Path

import pytest

_FIELDS = ["arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"]
_LIBC = ctypes.CDLL(None)
needs_mallinfo = pytest.mark.skipif(not hasattr(_LIBC, "mallinfo2"), reason="the C library does not count its bytes")


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


def heap_bytes() -> int:
    """Bytes that were allocated and not freed, also those that have a mapping of their own."""
    _LIBC.mallinfo2.restype = _Mallinfo
    now = _LIBC.mallinfo2()
    return now.uordblks + now.hblkhd


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def peak_growth(call) -> int:
    """The rise of memory above its state before `call`, without the peak of earlier tests."""
    _LIBC.malloc_trim(0)  # memory that earlier tests freed would be used again and not count
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmHWM")
    call()
    return _status("VmHWM") - before
