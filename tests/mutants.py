"""Plants one fault at a time and prints which tests find it: those of `make test`, or only those of `make test-all`.

    python tests/mutants.py            # all of them, an hour on two cores; the checkout must be clean and is left so
    python tests/mutants.py symmetric  # those whose name holds a text

A mutant names the test files that could find it. The other files are not run.
"""

# ruff: noqa: E501

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Mutant(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    tests: str  # patterns of files in tests/


CAUSAL = "csrc/kernels/causal/cpu/cpu.cpp"
EXTENSION = "torch_conv/autograd/_extension.py"
NUMBERS = "torch_conv/functional/_kernel_arguments.py"
DIRECT = "csrc/kernels/direct/cpu_body.h"
MUTANTS = [
    Mutant("state after a sequence, a step early", CAUSAL, "p.l - (p.k - 1) + j;", "p.l - p.k + j;", "causal_conv1d*"),
    Mutant("state before a short sequence", CAUSAL, "at(p.before, n, c, t + p.k - 1)", "at(p.before, n, c, j)", "causal_conv1d*"),
    Mutant("swish is refused", "csrc/api/causal.cpp", '|| *activation == "swish", op', ", op", "causal_conv1d*"),
    Mutant("bias of the first group", DIRECT, "bias + channel_out_ + co;", "bias + co;", "conv depthwise*"),
    Mutant("first channel of a group only", DIRECT, "channel_in_ + ci, at, 0", "channel_in_, at, 0", "conv filter"),
    Mutant("taps of the first group", DIRECT, "(channel_out_ + co) * p_.taps.stride_c", "co * p_.taps.stride_c", "conv filter"),
    Mutant("repeated planes of a box", "csrc/kernels/box/cpu/depth_body.h", "times * double(row[e])", "double(row[e])", "box box_order borders"),
    Mutant("ties of means of bytes", "csrc/kernels/box/cpu/body.h", "(tie & mean & 1)", "(tie & 1)", "box box_bytes"),
    Mutant("negative taps are clamped", "csrc/kernels/overlap_save/cpu/cpu.cpp", "return tap >= 0;", "return tap == tap;", "filter2d_fft*"),
    Mutant("smoothing of the ladder", "csrc/kernels/ladder/cpu.cpp", "kSmooth[3] = {1, 2, 1}", "kSmooth[3] = {1, 1, 1}", "ladder*"),
    Mutant("margin of a sharpened image", "csrc/dispatch/chain.cpp", "problem.margin_y = y, problem.margin_x = x;", "problem.margin_y = y;", "pipelines fused borders promises"),
    Mutant("window of the first volume", "csrc/dispatch/passes.cpp", "n * taps.stride_n * acc_bytes", "0 * taps.stride_n * acc_bytes", "filter filter_separable pipelines"),
    Mutant("mirrored rows of a shard", "csrc/sharding/geometry.cpp", "std::min(n, above + 1)", "std::min(n, above)", "split* distributed"),
    Mutant("rows around a ring of shards", "csrc/sharding/geometry.cpp", "{n + low, n}} : all_rows;", "{n + low + 1, n}} : all_rows;", "split* distributed"),
    Mutant("shape of one dimension", "csrc/tensors/checks.cpp", '(sizes.size() == 1 ? ",)" : ")")', '")"', "errors*"),
    Mutant("padding of windows that are not square", "csrc/kernels/fused/cpu/stage.h", "p.valid ? 0 : stage_.kw / 2", "p.valid ? 0 : stage_.kh / 2", "fused* pipelines edges"),
    Mutant("dilation of tall windows", "csrc/kernels/depthwise/cpu/planes.h", "place.stride_y == 1 && place.dilation_y == 1;", "place.stride_y == 1;", "depthwise*"),
    Mutant("gradient at a symmetric border", EXTENSION, "before - 1, -1), _Run(n, after, n - 1, -1)", "before - 1, -1), _Run(n, after, n - 2, -1)", "gradients*"),
    Mutant("gradient at a reflected border", EXTENSION, "_Run(n, after, n - 2, -1)]", "_Run(n, after, n - 1, -1)]", "gradients*"),
    Mutant("gradient at a circular border", EXTENSION, "n - before, 1), _Run(n, after, 0, 1)", "n - before, 1), _Run(n, after, 1, 1)", "gradients*"),
    Mutant("size of an extended image", "torch_conv/autograd/_filters.py", "[n + b + a for", "[n + b + b for", "gradients*"),
    Mutant("fixed Gaussians of cv2", "torch_conv/compat/cv2/_taps.py", "if sigma <= 0 and size in", "if sigma < 0 and size in", "compat_cv2*"),
    Mutant("sigma of cv2", "torch_conv/compat/cv2/_taps.py", "0.15 * size + 0.35", "0.15 * size + 0.36", "compat_cv2*"),
    Mutant("flipped weights of scipy", "torch_conv/compat/scipy_ndimage/_correlate.py", "taps = np.flip(taps)", "taps = np.flip(taps, -1)", "compat_scipy_ndimage"),
    Mutant("shape of a strided fake", "torch_conv/fakes/shapes.py", "// stride[a] + 1 for", "// stride[a] for", "opcheck compile"),
    Mutant("radius of a Gaussian", "torch_conv/kernels.py", "radius = int(truncate * sigma + 0.5)", "radius = int(truncate * sigma)", "kernels pipelines"),
    Mutant("windows of too many taps", "torch_conv/kernels.py", "truncate * sigma >= 1 << 23", "truncate * sigma >= 1 << 40", "errors* numbers pipelines windows"),
    Mutant("padding same of even windows", "torch_conv/functional/_convolve.py", "[total // 2, total - total // 2]", "[total - total // 2, total // 2]", "conv handover"),
    Mutant("flops of a filter", "torch_conv/dispatch/flops.py", "return 2 * prod(results) * taps", "return prod(results) * taps", "tools"),
    Mutant("a wrong class of error", "torch_conv/dispatch/remedies.py", "return TypeError(", "return ValueError(", "nn errors*"),
]  # fmt: skip


def run(*command: str) -> bool:
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def seen(files: list[str], *options: str) -> bool:
    return not run(sys.executable, "-m", "pytest", "-x", "-q", "-n", "2", "-p", "no:cacheprovider", *options, *files)


def files_of(pattern: str) -> list[str]:
    return [str(file) for file in sorted((ROOT / "tests").glob(f"test_{pattern}.py"))]


def verdict(mutant: Mutant) -> str:
    path = ROOT / mutant.file
    text = path.read_text()
    assert text.count(mutant.old) == 1, f"{mutant.file} holds {mutant.old!r} {text.count(mutant.old)} times"
    files = [file for pattern in mutant.tests.split() for file in files_of(pattern)]
    native = mutant.file.startswith("csrc/")
    try:
        path.write_text(text.replace(mutant.old, mutant.new))
        if native and not run("make", "build"):
            return "does not compile"
        return "make test" if seen(files, "--fast") else "make test-all" if seen(files) else "unseen"
    finally:
        path.write_text(text)


def main() -> None:
    chosen = [mutant for mutant in MUTANTS if not sys.argv[1:] or sys.argv[1] in mutant.name]
    for mutant in chosen:
        print(f"{verdict(mutant):16} {mutant.name}", flush=True)
    run("make", "build")


if __name__ == "__main__":
    main()
