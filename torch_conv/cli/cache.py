"""`torch-conv cache`: the folder of compiled kernels, and its removal."""

from __future__ import annotations

import argparse
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ELOOP, ENOTDIR

from torch_conv.bench.files import reason
from torch_conv.bench.formatting import counted
from torch_conv.bench.usage import UsageError
from torch_conv_cli import printable

# csrc/runtime/kernel_file.cpp writes the files, under a temporary name first, and beside a lock while a process
# compiles. Before the code stand this text, the kernel's name and the GPU's, a line each.
NAME = re.compile(r"[0-9a-f]{16}\.kernel(\.\w{6}|\.lock)?")
MAGIC = b"torch_conv "
HEAD = 4096  # bytes; no description is longer


@dataclass(frozen=True)
class Kernel:
    """A file that this library wrote."""

    file: str
    size: int
    what: tuple[bytes, ...]  # the kernel's name and the GPU's; the file's name if it was not finished


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "cache",
        description="Show the folder of the kernels that torch_conv compiled on this machine. It grows with every new "
        "kernel; one that is removed is compiled again when it is needed. TORCH_CONV_CACHE=FOLDER moves the folder, "
        "TORCH_CONV_CACHE=0 keeps none.",
    )
    parser.add_argument("--clear", action="store_true", help="remove the kernels from the folder, and nothing else")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    path, why = folder()
    if not path:
        print(f"There is no cache: {why}.")
        return
    try:
        with opened(path) as descriptor:
            kernels, others = contents(descriptor)
            shared = is_shared(descriptor)
            if args.clear:
                clear(path, descriptor, kernels)
    except FileNotFoundError:
        kernels, others, shared = [], 0, False
    older = 0 if args.clear else len(kernels) - len({kernel.what for kernel in kernels})
    facts = {
        "folder": printable(path),
        "chosen by": why,
        "removed" if args.clear else "kernels": amount(kernels),
        "replaced": older and f"{older} of them, by kernels of another version of torch_conv or NVRTC",
        "others": others and f"{counted(others, 'file')} that torch_conv did not write",
        "not used": shared and "the folder belongs to another user, or others may write to it",
    }
    for name, value in facts.items():
        if value:
            print(f"{name:<16}{value}")


def folder() -> tuple[str, str]:
    """The folder and the variable that decides it, as cache_folder of csrc/runtime/kernel_file.cpp; or "", and why."""
    asked, user, home = (os.environ.get(name) for name in ("TORCH_CONV_CACHE", "XDG_CACHE_HOME", "HOME"))
    if asked == "0":
        return "", "TORCH_CONV_CACHE is 0"
    if asked:
        return asked, "TORCH_CONV_CACHE"
    if user:
        return f"{user}/torch_conv/kernels", "XDG_CACHE_HOME"
    return (f"{home}/.cache/torch_conv/kernels", "HOME") if home else ("", "there is no home folder")


@contextmanager
def opened(path: str) -> Iterator[int]:
    """A descriptor of the folder. A link is refused, because the library does not follow it either."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise
    except OSError as error:
        why = "is no folder" if error.errno in (ENOTDIR, ELOOP) else f"cannot be read: {reason(error)}"
        raise UsageError(f"{path} {why}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def contents(descriptor: int) -> tuple[list[Kernel], int]:
    """The kernels of the folder, and the number of its other files."""
    names = os.listdir(descriptor)
    found = [kernel for name in names if (kernel := kernel_of(name, descriptor))]
    return found, len(names) - len(found)


def kernel_of(name: str, descriptor: int) -> Kernel | None:
    """The kernel in a file of the folder; None if this library did not write the file."""
    if not NAME.fullmatch(name):
        return None
    try:  # without O_NONBLOCK a pipe would wait for its writer
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
    except OSError:
        return None
    try:
        facts = os.fstat(file)
        head = os.read(file, HEAD) if stat.S_ISREG(facts.st_mode) else b"-"
    finally:
        os.close(file)
    if not MAGIC.startswith(head[: len(MAGIC)]):
        return None
    lines = head.split(b"\n")
    return Kernel(name, facts.st_size, tuple(lines[1:3]) if len(lines) > 3 else (name.encode(),))


def clear(path: str, descriptor: int, kernels: list[Kernel]) -> None:
    for kernel in kernels:
        try:
            os.unlink(kernel.file, dir_fd=descriptor)
        except FileNotFoundError:  # another process was faster
            pass
        except OSError as error:
            raise UsageError(f"{path}/{kernel.file} cannot be removed: {reason(error)}") from error


def is_shared(descriptor: int) -> bool:
    """Whether the library leaves the folder alone: kernels of other users are not run."""
    facts = os.fstat(descriptor)
    return facts.st_uid != os.geteuid() or bool(facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def amount(kernels: list[Kernel]) -> str:
    size = sum(kernel.size for kernel in kernels)
    return f"{counted(len(kernels), 'file')}, {size / 2**20:.1f} MiB" if kernels else "none"
