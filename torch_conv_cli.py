"""The start of the command line `torch-conv`, beside the package because importing the package imports torch.

Help, the version and wrong names of commands take no torch; `python -m torch_conv` imports it before anything else.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib.util
import io
import os
import re
import sys
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any, NoReturn, TypeGuard

# Each is a module or folder of torch_conv/cli.
COMMANDS = {
    "demo": "filter real photographs, compare and time",
    "filter": "filter photographs and stacks of pages",
    "bench": "measure kernels on this machine",
    "report": "make one page with tables and figures from files of results",
    "prepare": "compile a filter's kernels ahead of its first call",
    "info": "print versions, devices and where kernels come from",
    "cache": "show or clear the folder of compiled kernels",
}
LARGEST = 2**31 - 1  # of any size or count
OF_OUTPUT = (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EDQUOT)  # errors of a stream without a name


class Parser(argparse.ArgumentParser):
    """An argument parser that refuses bad options in one sentence, without its usage."""

    any_order = False  # whether arguments may stand before, between and after options; not with subcommands
    parsing = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register("type", int, whole_number)  # what `type=int` and `type=float` of an option mean
        self.register("type", float, number)
        self.set_defaults(prog=self.prog)  # the innermost command's stays

    def error(self, message: str) -> NoReturn:
        message = re.sub(r"^argument ([^:]+):( must)?", lambda m: m[1] + (m[2] or ":"), message)
        message = re.sub(r"^the following arguments are required: (.*)", r"\1 must be given", message)
        self.exit(2, f"{self.prog}: {printable(message)} (see {self.prog} --help)\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Names options that do not exist before argparse misses others."""
        if self.parsing:  # argparse calls itself
            return super().parse_known_args(args, namespace)
        options = self._option_string_actions
        for word in takewhile(lambda word: word.startswith("-") or not self._subparsers, args):
            name = word.partition("=")[0]
            if word == "--":
                break
            if word.startswith("--") and not any(option.startswith(name) for option in options):
                self.error(f"unknown option '{name}'{did_you_mean(name, options)}")
        self.parsing = True
        try:
            parse = self.parse_known_intermixed_args if self.any_order else super().parse_known_args
            found, unknown = parse(args, namespace)
        finally:
            self.parsing = False
        if unknown:
            what = "option" if unknown[0].startswith("-") else "argument"
            self.error(f"unknown {what} '{unknown[0]}'")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        noun = action.option_strings[0].lstrip("-") if action.option_strings else str(action.metavar).lower()
        *names, last = action.choices
        hint = did_you_mean(str(value), action.choices) or f": must be {', '.join(names)} or {last}"
        self.error(f"unknown {noun} '{value}'{hint}")

    def print_help(self, file: Any = None) -> None:
        print(self.format_help(), end="", file=file)  # argparse would say nothing of a full disk


def did_you_mean(text: str, names: Iterable[str]) -> str:
    """The name close to the text as the end of a sentence; empty if there is none."""
    from difflib import get_close_matches

    return "".join(f", did you mean '{name}'?" for name in get_close_matches(text, list(names), n=1))


def whole_number(text: str) -> int:
    """A size or a count of an option."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text}") from None
    if value > LARGEST:
        raise argparse.ArgumentTypeError(f"must be at most {LARGEST}, got {text}")
    return value


def number(text: str) -> float:
    """A measure of an option."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text}") from None


def printable(text: object) -> str:
    """The text with control characters escaped, so that a file's name cannot steer the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status.

    0; 1 after a wrong result or the end of a pipe's reader; 2 after one sentence of refusal; 130 after an interrupt.
    """
    open_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for file names that the terminal cannot show
    args = argparse.Namespace(prog="torch-conv")
    try:
        status = run(joined(sys.argv[1:] if argv is None else argv), args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader has ended, as head does
        drop_output()
        return 1
    except KeyboardInterrupt:
        said, status = "interrupted", 130
    except Exception as error:
        if is_of_output(error):
            drop_output()
        said, status = refusal(error), 2
        if not said:
            raise
    complain(args, said)
    return status


def complain(args: argparse.Namespace, sentence: str) -> None:
    with contextlib.suppress(OSError):  # standard error on a full disk: the exit status remains
        print(f"{args.prog}: {printable(' '.join(sentence.split()))}", file=sys.stderr)


def run(words: Sequence[str], args: argparse.Namespace) -> int:
    try:
        build_parser(words).parse_args(words, args)
        args.run(args)
    except SystemExit as leaving:  # after help, a refused option, or a wrong result
        return int(leaving.code or 0)
    return 0


def build_parser(words: Sequence[str] = ()) -> Parser:
    """The parser of all commands; the one that `words` begin with has its options."""
    parser = Parser(
        prog="torch-conv",
        description="Filters of images and volumes on hand-written CUDA and CPU kernels.",
        epilog="`torch-conv COMMAND --help` prints a command's options.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.set_defaults(run=lambda args: print(version()) if args.version else parser.print_help())
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, summary in COMMANDS.items():
        if name not in words[:1]:
            commands.add_parser(name, help=summary)
            continue
        try:
            importlib.import_module(f"torch_conv.cli.{name}").add_parser(commands)
        except (ImportError, OSError) as error:  # torch_conv is not built, or there is no torch
            parser.exit(2, f"{parser.prog} {name}: {printable(error)}\n")
    return parser


def version() -> str:
    """Read, not imported, as a build reads it."""
    spec = importlib.util.find_spec("torch_conv")
    assert spec and spec.origin
    with open(spec.origin) as file:
        (found,) = re.findall(r'^__version__ = "(.*)"$', file.read(), re.MULTILINE)
    return f"torch_conv {found}"


def joined(words: Sequence[str]) -> list[str]:
    """`--anchor -1,0` as `--anchor=-1,0`: argparse would take that value for an option."""
    result: list[str] = []
    for word in words:
        if result and re.fullmatch(r"--\w+", result[-1]) and re.fullmatch(r"-\d+(,-?\d+)+", word):
            result[-1] += f"={word}"
        else:
            result.append(word)
    return result


def open_streams() -> None:
    """Replaces missing standard output and error, which Python sets to None after `>&-` in a shell."""
    if sys.stdout is None:  # opened for reading, so that writing results fails instead of losing them in silence
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w")  # noqa: SIM115 (it stays open)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def is_of_output(error: Exception) -> TypeGuard[OSError]:
    """Whether standard output failed: its errors name no file, and no other stream lets such errors pass."""
    return isinstance(error, OSError) and error.filename is None and error.errno in OF_OUTPUT


def refusal(error: Exception) -> str:
    """The sentence for an error that is no bug, else an empty text."""
    if is_of_output(error):
        return f"standard output cannot be written: {os.strerror(error.errno or 0).lower()}"
    from torch_conv.cli import sentence_of  # here, because it imports torch

    return sentence_of(error)


def drop_output() -> None:
    """Discards pending output: Python would print it again at its end, and fail with a traceback."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
