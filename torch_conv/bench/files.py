"""Files that commands write. A command checks them before any work, and writes a file completely or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from torch_conv.bench.usage import UsageError

STREAMS = {"stdin": 0, "stdout": 1, "stderr": 2}
OPEN_FILE = re.compile(rf"/dev/(?P<name>{'|'.join(STREAMS)})|(/dev|/proc/self)/fd/(?P<number>\d+)")


def check_file(path: Path | None, force: bool) -> None:
    """Refuses a file that cannot be written, or that exists without `force`."""
    if path is None:
        return
    try:
        if not path.absolute().parent.is_dir():
            raise UsageError(f"there is no folder {path.parent}")
        if path.is_dir():
            raise UsageError(f"{path} is a folder")
        if (number := descriptor(path)) is not None:
            os.fstat(number)  # fails where nothing is open
        if is_device(path):
            return
        is_there = path.exists()
        if is_there and not force:
            raise UsageError(f"{path} exists already; --force replaces it")
        target = _target(path)
        _check_access(path, target.parent, os.W_OK | os.X_OK)
        if is_there:
            _check_access(path, target, os.W_OK)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {reason(error)}") from error


def check_folder(path: Path | None) -> None:
    """Refuses a folder that cannot be made or written to."""
    if path is None:
        return
    try:
        folder = _target(path)
        while not folder.exists():
            folder = folder.parent
        if not folder.is_dir():
            raise UsageError(f"{path} cannot be a folder: {path if path.exists() else folder} is a file")
        _check_access(path, folder, os.W_OK | os.X_OK)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {reason(error)}") from error


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {reason(error)}") from error


def write_file(path: Path, content: bytes, force: bool = True) -> None:
    """Writes all of `content`, or raises a UsageError and writes nothing.

    The content goes to a temporary file in the target's folder, which is then renamed. Without `force`, the function
    replaces no file that has appeared since `check_file`.
    """
    try:
        if is_device(path):
            with _opened(path) as file:
                file.write(content)
        else:
            _write_and_rename(_target(path), content, force)
    except FileExistsError as error:
        raise UsageError(f"{path} exists already; --force replaces it") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {reason(error)}") from error


def write_json(path: Path, document: dict[str, Any], force: bool = True) -> None:
    write_file(path, (json.dumps(document, indent=1) + "\n").encode(), force)


def is_device(path: Path) -> bool:
    """Whether the path is a pipe, a device, or an open file such as /dev/stdout, which no new file must replace."""
    return descriptor(path) is not None or (path.exists() and not path.is_dir() and not path.is_file())


def descriptor(path: Path) -> int | None:
    """The descriptor of this process that the path names: 1 for /dev/stdout, 7 for /dev/fd/7."""
    found = OPEN_FILE.fullmatch(str(path))
    return (STREAMS[found["name"]] if found["name"] else int(found["number"])) if found else None


def reason(error: OSError) -> str:
    """The system's reason in lower case, for use in a sentence: "permission denied"."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


def _target(path: Path) -> Path:
    """The file behind a link, so that the link stays a link."""
    return Path(os.path.realpath(path))


def _opened(path: Path) -> BinaryIO:
    """A device for writing; of an open file a duplicate, because opening its name again would empty the file."""
    number = descriptor(path)
    if number is None:
        return path.open("wb")
    if sys.stdout is not None:
        sys.stdout.flush()  # what was printed comes first
    return os.fdopen(os.dup(number), "wb")


def _check_access(path: Path, accessed: Path, mode: int) -> None:
    if not os.access(accessed, mode, effective_ids=True):
        raise UsageError(f"{path} cannot be written: permission denied")


def _write_and_rename(target: Path, content: bytes, force: bool) -> None:
    part = target.with_name(f".torch-conv-{secrets.token_hex(8)}")
    with _ending_by_signal():
        try:
            with part.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())  # a full disk may fail only here
            if force:
                if target.exists():
                    shutil.copymode(target, part)
                os.replace(part, target)
            else:
                _take_name(part, target)
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)


class _Ended(BaseException):
    """A signal that ends the program."""


@contextlib.contextmanager
def _ending_by_signal() -> Iterator[None]:
    """Lets `finally` run before a signal ends the program. KeyboardInterrupt, of SIGINT, does so anyway."""

    def end(number: int, frame: object) -> NoReturn:
        signal.signal(number, signal.SIG_IGN)  # a second one does not stop the cleaning
        arrived.append(number)
        raise _Ended

    arrived: list[int] = []
    replaced = []
    if threading.current_thread() is threading.main_thread():  # no other may
        replaced = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_DFL]
    try:
        for number in replaced:
            signal.signal(number, end)
        yield
    finally:
        for number in replaced:
            signal.signal(number, signal.SIG_DFL)
        if arrived:
            signal.raise_signal(arrived[0])


def _take_name(part: Path, target: Path) -> None:
    """Renames the file unless the name exists, whether or not the file system has hard links."""
    try:
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL))  # nobody else can take the name from here on
        try:
            os.replace(part, target)
        except BaseException:
            target.unlink()
            raise
