"""What a decorated function of the compiled engine is: a kernel or an intrinsic. compiled.py has the decorators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class KernelDefinition:
    """A function that numba compiles.

    `is_inlined` says whether the function becomes a part of each kernel that calls it.
    """

    def __init__(self, function: Callable[..., Any], *, is_inlined: bool) -> None:
        self.function: Any = function
        self.is_inlined = is_inlined


class Intrinsic:
    """A function that writes LLVM instructions into the kernels that call it (intrinsics.py).

    `prefer_literal` is numba's option of the same name.
    """

    def __init__(self, function: Callable[..., Any], *, prefer_literal: bool) -> None:
        self.function: Any = function
        self.prefer_literal = prefer_literal

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"only a kernel can call {self.function.__name__}")
