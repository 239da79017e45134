"""The decorators of the compiled engine: a function becomes machine code at its first call.

A function with the decorator `kernel` or `inlined` is called a kernel. Kernels call each other and the intrinsics
(intrinsics.py). The machine code of a kernel is made by numba (numba_code.py) and stored in a file (stored_code.py).
Later processes load the machine code from this file (linked_code.py). They do not import numba, because the import
takes longer than a load of a million records.

Kernels run without the GIL (Python's global lock), so threads run in parallel. Several threads may call the same kernel
for the first time: one of them prepares the machine code, and the others wait. Kernels cannot allocate memory: every
array that a kernel needs is an argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from threading import RLock
from typing import Any

from kafkagroups.kernels.arguments import TypeKey, Words, add_argument, describe_type
from kafkagroups.kernels.definitions import Intrinsic, KernelDefinition
from kafkagroups.kernels.linked_code import LinkedCode, link
from kafkagroups.kernels.stored_code import STORE, MachineCode

if not STORE.functions:
    # Numba will be needed. If it cannot be imported, the importer of this module must know: engines.py then chooses the
    # readable engine.
    import numba  # noqa: F401

_lock = RLock()
"""A thread holds this lock while it prepares machine code."""


class Kernel(KernelDefinition):
    """A function that runs as machine code: one function of machine code for each combination of argument types."""

    def __init__(self, function: Callable[..., Any], *, is_inlined: bool) -> None:
        super().__init__(function, is_inlined=is_inlined)
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.__doc__ = function.__doc__
        self._argument_count = function.__code__.co_argcount
        # The key of the store describes only the source files of this package.
        self._can_be_stored = function.__module__.startswith(f"{__package__}.")
        self._code_by_types: dict[tuple[type | int, ...], LinkedCode] = {}
        self._code_by_symbol: dict[str, LinkedCode] = {}

    def __call__(self, *arguments: Any, **named_arguments: Any) -> Any:
        """Call the machine code. Raise RuntimeError if the kernel raises an error, which no kernel should do."""
        if named_arguments or len(arguments) != self._argument_count:
            bound = inspect.signature(self.function).bind(*arguments, **named_arguments)
            bound.apply_defaults()
            arguments = bound.args
        words: Words = []
        type_key: TypeKey = []
        for argument in arguments:
            add_argument(argument, words, type_key)
        code = self._code_by_types.get(tuple(type_key))
        if code is None:
            code = self._prepare(arguments, len(words))
            self._code_by_types[tuple(type_key)] = code
        status, result = code.call(words)
        if status:
            raise RuntimeError(f"the kernel {self.name} failed with the status {status}")
        return result

    def _prepare(self, arguments: tuple[Any, ...], word_count: int) -> LinkedCode:
        """Return the machine code for these types of arguments, from the store or from numba."""
        symbol = f"{self.name}({', '.join(describe_type(argument) for argument in arguments)})"
        with _lock:
            if symbol not in self._code_by_symbol:
                machine_code = STORE.find(symbol) if self._can_be_stored else None
                machine_code = machine_code or self._compile(symbol, arguments)
                self._code_by_symbol[symbol] = link(symbol, machine_code, word_count)
            return self._code_by_symbol[symbol]

    def _compile(self, symbol: str, arguments: tuple[Any, ...]) -> MachineCode:
        from kafkagroups.kernels.numba_code import compile_kernel

        machine_code = compile_kernel(self, symbol, arguments)
        if self._can_be_stored:
            STORE.add(symbol, machine_code)
        return machine_code


def kernel(function: Callable[..., Any]) -> Any:
    """Return the function as a kernel, which is compiled to machine code when it is first called."""
    return Kernel(function, is_inlined=False)


def inlined(function: Callable[..., Any]) -> Any:
    """Return the function as a kernel that is compiled as a part of each kernel that calls it."""
    return Kernel(function, is_inlined=True)


def intrinsic(function: Callable[..., Any]) -> Any:
    """Return the function as an intrinsic."""
    return Intrinsic(function, prefer_literal=False)


def literal_intrinsic(function: Callable[..., Any]) -> Any:
    """Return the function as an intrinsic that gets the types of its constant arguments with a `literal_value`."""
    return Intrinsic(function, prefer_literal=True)
