"""Loads machine code into memory, so that Python can call it.

Machine code is an object file, as a C compiler makes it. LLVM links it: it copies the code into executable memory, and
inserts addresses. Python calls the code through ctypes, which releases the GIL.
"""

from __future__ import annotations

import struct
from ctypes import CFUNCTYPE, c_char_p, c_int32, c_int64, c_void_p
from functools import cache
from typing import Any

from llvmlite import binding

from kafkagroups.kernels.arguments import Words, count_result_words, read_result
from kafkagroups.kernels.stored_code import MachineCode

_Function = CFUNCTYPE(c_int32, c_char_p, c_void_p)
"""The C type of a kernel. Its arguments are the addresses of the arguments' words and of the result's words. It returns
a status; 0 is success."""


class LinkedCode:
    """Machine code that Python can call."""

    def __init__(self, machine_code: MachineCode, engine: Any, address: int, word_count: int) -> None:
        self._engine = engine  # The machine code exists as long as its engine.
        self._function = _Function(address)
        self._pack_words = struct.Struct(f"{word_count}q").pack
        self._result_type = machine_code.result_type
        self._result_words = c_int64 * count_result_words(machine_code.result_type)

    def call(self, words: Words) -> tuple[int, Any]:
        """Call the code with the words of the arguments. Return the status and the result."""
        result_words = self._result_words()
        status = self._function(self._pack_words(*words), result_words)
        return status, read_result(self._result_type, result_words[:])


def link(symbol: str, machine_code: MachineCode, word_count: int) -> LinkedCode:
    """Link machine code.

    `symbol` is the name of the function in the object file. `word_count` is the number of words of its arguments.
    """
    # Each function has its own engine, because object files can contain functions with the same names.
    engine = _create_engine()
    engine.add_object_file(binding.ObjectFileRef.from_data(machine_code.object_file))
    engine.finalize_object()
    return LinkedCode(machine_code, engine, engine.get_function_address(symbol), word_count)


def _create_engine() -> Any:
    """Return a linker of LLVM."""
    module = binding.parse_assembly("")
    return binding.create_mcjit_compiler(module, _native_target().create_target_machine(jit=True))


@cache
def _native_target() -> Any:
    """Return LLVM's description of this machine's kind of CPU."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_triple(binding.get_process_triple())
