"""Functions of the command line for other programs: pictures, files, devices, times.

They refuse by `UsageError`, one sentence. Pictures need Pillow and OpenCV (the extra `cli`).
"""

from torch_conv.bench.files import check_file, check_folder, make_folder, write_file
from torch_conv.bench.timing import queue_sampler, synchronize, time_call, turns
from torch_conv.bench.usage import UsageError
from torch_conv.cli._images import device_named
from torch_conv.cli._pictures import read_picture

__all__ = [
    "UsageError",
    "check_file",
    "check_folder",
    "device_named",
    "make_folder",
    "queue_sampler",
    "read_picture",
    "synchronize",
    "time_call",
    "turns",
    "write_file",
]
