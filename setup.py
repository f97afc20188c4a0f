"""Builds torch_conv: the module `_C` by the C++ compiler, and with NVRTC the kernels that csrc/ahead.txt lists."""

import glob
import os
import re
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path

import setuptools


def at_least(name: str, found: str, needed: str) -> None:
    if [int(number) for number in re.findall(r"\d+", found)[:2]] < [int(number) for number in needed.split(".")]:
        raise SystemExit(f"torch_conv: building needs {name} {needed} or newer, this is {name} {found}")


# Said before the imports that other platforms and older versions lack.
if sysconfig.get_platform() != "linux-x86_64":
    raise SystemExit(f"torch_conv: runs on Linux on x86-64 (linux-x86_64), this is {sysconfig.get_platform()}")
at_least("setuptools", setuptools.__version__, "77")

from setuptools.command.bdist_wheel import bdist_wheel  # noqa: E402
from setuptools.command.build_py import build_py  # noqa: E402

try:
    import torch
    from torch.utils.cpp_extension import BuildExtension, CppExtension
except ModuleNotFoundError as error:
    raise SystemExit(
        f"torch_conv: {error.name} is not installed, and a build without isolation takes what is there: "
        "run `pip install -r requirements/build.txt`, or leave out --no-build-isolation"
    ) from error

ROOT = os.path.dirname(os.path.abspath(__file__))
CSRC = os.path.join(ROOT, "csrc")
SOURCES = os.path.join("build", "generated", "kernel_sources.cpp")

sys.path.insert(0, CSRC)
import ahead  # noqa: E402

# One binary for torch >= 2.11: its stable ABI.
STABLE = ["-DTORCH_TARGET_VERSION=0x020b000000000000"]
CXX = [
    "-std=c++20",
    "-O3",
    "-fvisibility=hidden",
    # The order of roundings is part of the contract ("same bits"): fused multiply-adds are written out.
    "-ffp-contract=off",
    "-fno-math-errno",
    "-g0",
    # A switch over borders or dtypes names each of them.
    "-Werror=switch",
    # Template statics must not be shared with other libraries of the process.
    "-fno-gnu-unique",
    # No path of the build machine may appear in a message.
    f"-fmacro-prefix-map={ROOT}/=",
    f"-fmacro-prefix-map={os.path.dirname(torch.__file__)}/=torch/",
]


def capabilities() -> list[int]:
    """TORCH_CUDA_ARCH_LIST ("8.0 9.0" is [80, 90]); else those of the GPUs present; else 9.0. None without CUDA."""
    if torch.version.cuda is None:
        return []
    asked = os.environ.get("TORCH_CUDA_ARCH_LIST", "").replace(";", " ").replace(",", " ").split()
    numbers = [re.fullmatch(r"(\d+)\.(\d)[a-z]?(\+PTX)?", word) for word in asked]
    if not all(numbers):
        raise SystemExit(f"torch_conv: TORCH_CUDA_ARCH_LIST must hold numbers like 9.0, got {' '.join(asked)}")
    if numbers:
        return sorted({10 * int(number[1]) + int(number[2]) for number in numbers if number})
    present = {torch.cuda.get_device_capability(i) for i in range(torch.cuda.device_count())}
    return sorted(10 * major + minor for major, minor in present) or [90]


def check_compiler() -> None:
    compiler = os.environ.get("CXX", "c++")  # as torch.utils.cpp_extension chooses it
    if not shutil.which(shlex.split(compiler)[0]):
        raise SystemExit(f"torch_conv: there is no C++ compiler ({compiler}): on Debian and Ubuntu, apt install g++")


def package_page() -> str:
    """README.md for an index of packages, which shows no file of the checkout: no pictures, and links as their text.

    Paragraphs that begin with a link are left out, because they hold nothing else.
    """
    text = re.sub(r"(?<=\n\n)!?\[.*?(?:\n\n|\Z)", "", Path(ROOT, "README.md").read_text("utf-8"), flags=re.DOTALL)
    return re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", text)


class Build(BuildExtension):
    def get_ext_filename(self, fullname: str) -> str:
        """The name that torch_conv.dispatch.library loads; a free-threaded Python has no ending `.abi3.so`."""
        return fullname.replace(".", "/") + ".abi3.so"

    def run(self) -> None:
        check_compiler()
        ahead.write_sources(Path(ROOT) / SOURCES)
        super().run()
        module = Path(self.get_ext_fullpath("torch_conv._C"))
        jobs = max(1, int(os.environ.get("MAX_JOBS", "2")))
        if capabilities():
            ahead.build(module.resolve(), module.resolve().parent / "kernels", capabilities(), jobs)
        else:
            print("torch_conv: this torch has no CUDA, no kernels are built")


class Wheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        """The module uses nothing of Python, so that one wheel serves every CPython, free-threaded ones, too."""
        return "py3", "none", super().get_tag()[2]


class BuildPython(build_py):
    def run(self) -> None:
        """What an earlier build put there may be gone from the package since."""
        for path in Path(self.build_lib).glob("torch_conv/**/*.py"):
            path.unlink()
        super().run()


at_least("torch", torch.__version__, "2.11")

sources = sorted(os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(CSRC, "**/*.cpp"), recursive=True))

setuptools.setup(
    long_description=package_page(),
    long_description_content_type="text/markdown",
    ext_modules=[
        CppExtension(
            "torch_conv._C",
            [*sources, SOURCES],
            include_dirs=[CSRC],
            extra_compile_args={"cxx": STABLE + CXX},
            # libgcc's conversions of float16 travel in the module: systems' shared libgcc has them from GCC 12 on only.
            libraries=["dl", "gcc"],
            extra_link_args=["-Wl,--strip-all"],
            py_limited_api=True,  # without torch's library for Python
        )
    ],
    cmdclass={"build_ext": Build, "build_py": BuildPython, "bdist_wheel": Wheel},
)
