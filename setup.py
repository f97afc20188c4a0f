"""Builds torch_conv: `_C` (schema, checks, CPU) and, where nvcc is found, `_cuda` (CUDA kernels)."""

import glob
import os
import re
import shutil
import subprocess
import sysconfig

import torch
from setuptools import setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CppExtension, CUDAExtension

ROOT = os.path.dirname(os.path.abspath(__file__))
CSRC = os.path.join(ROOT, "csrc")

# One binary for torch >= 2.11 and CPython >= 3.10: the stable ABI of both.
STABLE = ["-DTORCH_TARGET_VERSION=0x020b000000000000"]
CXX = [
    "-std=c++20",
    "-O3",
    "-fvisibility=hidden",
    # The order of roundings is part of the contract ("same bits"): fused multiply-adds are written out.
    "-ffp-contract=off",
    "-fno-math-errno",
    "-g0",
    # Template statics must not be shared with other libraries of the process.
    "-fno-gnu-unique",
    # No path of the build machine may appear in a message.
    f"-fmacro-prefix-map={ROOT}/=",
    f"-fmacro-prefix-map={os.path.dirname(torch.__file__)}/=torch/",
]


def sources(pattern: str) -> list[str]:
    return sorted(os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(CSRC, pattern), recursive=True))


def why_no_cuda() -> str:
    """Empty if the CUDA part can be built: torch has CUDA, and there is an nvcc of the same major version."""
    if torch.version.cuda is None:
        return "this torch has no CUDA"
    nvcc = shutil.which(os.path.join(CUDA_HOME, "bin", "nvcc")) if CUDA_HOME else None
    if nvcc is None:
        return "nvcc was not found"
    release = re.search(r"release (\d+)", subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout)
    major = torch.version.cuda.split(".")[0]
    if release is None or release[1] != major:
        return f"nvcc is of CUDA {release[1] if release else '?'}, torch of CUDA {major}"
    return ""


def choose_architectures() -> None:
    """TORCH_CUDA_ARCH_LIST as given; else the GPUs present (torch's own default); else 9.0 with PTX."""
    if "TORCH_CUDA_ARCH_LIST" not in os.environ and not torch.cuda.is_available():
        os.environ["TORCH_CUDA_ARCH_LIST"] = "9.0+PTX"


def extensions() -> list:
    core = CppExtension(
        "torch_conv._C",
        sources("**/*.cpp"),
        include_dirs=[CSRC],
        extra_compile_args={"cxx": STABLE + CXX},
        py_limited_api=True,
    )
    missing = why_no_cuda()
    if missing:
        print(f"torch_conv: {missing}, building the CPU part only")
        return [core]
    choose_architectures()
    host = [flag for flag in CXX if flag.startswith(("-f", "-g"))]
    cuda = CUDAExtension(
        "torch_conv._cuda",
        sources("**/*.cu"),
        include_dirs=[CSRC],
        extra_compile_args={
            "cxx": STABLE + CXX + ["-DUSE_CUDA"],
            "nvcc": STABLE
            + ["-DUSE_CUDA", "-std=c++20", "-O3", "--cudart=static", "--expt-relaxed-constexpr"]
            + [f"-Xcompiler={flag}" for flag in host],
        },
        py_limited_api=True,
    )
    # The static runtime instead of libcudart.so: one file serves every CUDA minor release.
    cuda.libraries = [name for name in cuda.libraries if name not in ("cudart", "c10_cuda")]
    cuda.extra_link_args += ["-Wl,--no-as-needed", "-lcudart_static", "-lrt", "-ldl", "-lpthread"]
    return [core, cuda]


if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise SystemExit("torch_conv: the limited API needs a Python with the GIL")

setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildExtension},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
