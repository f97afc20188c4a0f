"""The command line: `torch-conv demo | filter | bench | report | prepare | info`, also `python -m torch_conv`."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn

from torch_conv.bench.files import reason
from torch_conv.bench.usage import UsageError

LIBRARY_REFUSAL = re.compile(r"[a-z]\w*: ")  # it begins with the function's name


@contextlib.contextmanager
def user_arguments() -> Iterator[None]:
    """Turns refusals of the library into UsageError. Any other error is a bug and passes."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if not LIBRARY_REFUSAL.match(str(error)):
            raise
        raise UsageError(str(error)) from error


class Parser(argparse.ArgumentParser):
    """An argument parser that refuses bad options in one sentence, without its usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {printable(message)} (see {self.prog} --help)\n")


def add_force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="replace an output file that exists already")


def printable(text: object) -> str:
    """The text with control characters escaped, so that a file's name cannot steer the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def open_streams() -> None:
    """Replaces missing standard output and error by streams that store nothing."""
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w")  # noqa: SIM115 (it stays open)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status: 0, or 2 after one sentence of refusal."""
    open_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for file names that the terminal cannot show
    args = build_parser().parse_args(joined(sys.argv[1:] if argv is None else argv))
    try:
        args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe has ended, as head does
        drop_output()
        return 1
    except (UsageError, OSError) as error:  # a bug shows its traceback
        return refused(args, error)
    except (MemoryError, RuntimeError) as error:
        if not of_memory(error):
            raise
        return refused(args, "there is not enough memory")
    except KeyboardInterrupt:
        print(f"torch-conv {args.command}: interrupted", file=sys.stderr)
        return 130
    return 0


def of_memory(error: Exception) -> bool:
    """Whether memory ran out: Python's, a GPU's, or the CPU's, for which torch has no class."""
    import torch

    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)


def joined(words: Sequence[str]) -> list[str]:
    """`--anchor -1,0` as `--anchor=-1,0`: argparse would take that value for an option."""
    result: list[str] = []
    for word in words:
        if result and re.fullmatch(r"--\w+", result[-1]) and re.fullmatch(r"-\d+(,-?\d+)+", word):
            result[-1] += f"={word}"
        else:
            result.append(word)
    return result


LARGEST = 2**31 - 1  # of any size or count


def whole_number(text: str) -> int:
    """A size or a count of an option."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text}") from None
    if number > LARGEST:
        raise argparse.ArgumentTypeError(f"must be at most {LARGEST}, got {text}")
    return number


OF_OUTPUT = (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EDQUOT)  # errors of a stream without a name


def refused(args: argparse.Namespace, error: Exception | str) -> int:
    """Prints the reason in one sentence, and returns the exit status."""
    sentence = " ".join(str(error).split())
    if isinstance(error, OSError) and error.filename is not None:
        sentence = f"{error.filename}: {reason(error)}"
    elif isinstance(error, OSError) and error.errno in OF_OUTPUT:
        sentence = f"standard output cannot be written: {reason(error)}"
        drop_output()
    print(f"torch-conv {args.command}: {printable(sentence)}", file=sys.stderr)
    return 2


def drop_output() -> None:
    """Discards pending output, which Python would try to print again at its end."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def build_parser() -> Parser:
    from torch_conv import __version__
    from torch_conv.cli import bench, demo, filter, info, prepare, report

    parser = Parser(
        prog="torch-conv", description="Filters of images and volumes on hand-written CUDA and CPU kernels."
    )
    parser.add_argument("--version", action="version", version=f"torch_conv {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    demo.add_parser(commands)
    filter.add_parser(commands)
    bench.add_parser(commands)
    report.add_parser(commands)
    prepare.add_parser(commands)
    info.add_parser(commands)
    return parser
