"""Functions with keyword-only arguments for TorchScript, whose parser takes no defaults of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def compiled_by_torchscript(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, for which TorchScript finds its own function in its cache.

    That function takes the keyword-only arguments by position, too. It is made with names that torch does not promise;
    tried with torch 2.11 to 2.15.
    """
    try:  # imported here, so that only scripts depend on these names
        from torch._jit_internal import _qualified_name, createResolutionCallbackFromClosure
        from torch._sources import parse_def
        from torch.jit._state import _set_jit_function_cache, _try_get_jit_cached_function
        from torch.jit.frontend import get_default_args, get_jit_def

        compile_tree = torch._C._jit_script_compile
    except (ImportError, AttributeError) as error:
        name = fn.__name__
        raise RuntimeError(f"{name}: torch {torch.__version__} cannot script functions of torch_conv") from error
    if _try_get_jit_cached_function(fn) is None:
        parsed = parse_def(fn)
        arguments = parsed.ast.body[0].args
        arguments.args += arguments.kwonlyargs
        arguments.kwonlyargs, arguments.kw_defaults = [], []
        tree, resolve = get_jit_def(parsed, fn.__name__), createResolutionCallbackFromClosure(fn)
        compiled = compile_tree(_qualified_name(fn), tree, resolve, get_default_args(fn))
        _set_jit_function_cache(fn, compiled)
    return fn
