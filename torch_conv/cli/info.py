"""`torch-conv info`: the machine and the versions, for a report of a problem."""

from __future__ import annotations

import argparse
import importlib.metadata
import platform

import torch

import torch_conv


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "info",
        description="Print versions, devices, and where the CUDA kernels of torch_conv come from.",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    for key, value in facts():
        print(f"{key:<16}{value}")


def facts() -> list[tuple[str, str]]:
    """(name, value) in the order of printing."""
    rows = [
        ("torch_conv", torch_conv.__version__),
        ("system", platform.platform()),
        ("python", platform.python_version()),
        ("torch", torch.__version__),
        ("torchvision", _version("torchvision")),
        ("torch's CUDA", torch.version.cuda or "none"),
        ("cuDNN", str(torch.backends.cudnn.version() or "none")),
        ("CPU threads", str(torch.get_num_threads())),
        ("CPU", f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"),
    ]
    capabilities = set()
    for i in range(torch.cuda.device_count()):
        p = torch.cuda.get_device_properties(i)
        capabilities.add(10 * p.major + p.minor)
        gib = p.total_memory / 2**30
        detail = f"compute capability {p.major}.{p.minor}, {p.multi_processor_count} multiprocessors, {gib:.0f} GiB"
        rows.append((f"cuda:{i}", f"{p.name}, {detail}"))
    if not torch.cuda.device_count():
        rows.append(("GPU", "none that torch sees"))
    if torch.version.cuda is None:
        return [*rows, ("CUDA kernels", "none: this torch has no CUDA")]
    report = torch.ops.torch_conv._store_report(sorted(capabilities))
    return rows + [("" if i else "CUDA kernels", line) for i, line in enumerate(report)]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
