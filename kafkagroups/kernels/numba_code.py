"""Compiles kernels with numba. This module is imported only if the machine code of a kernel is not stored yet.

Numba does not know the objects that the decorators return (definitions.py). So it compiles copies of the functions. In
the global names of a copy, numba's own objects replace these objects.

Around the machine code of a kernel, `_make_object_file` writes a function in C's calling convention. This function
reads the arguments from words, calls the kernel, and writes the result (arguments.py).
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from llvmlite import ir
from numba import njit, typeof, types
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic

from kafkagroups.kernels.arguments import ResultType
from kafkagroups.kernels.definitions import Intrinsic, KernelDefinition
from kafkagroups.kernels.stored_code import MachineCode

_WORD = ir.IntType(64)
_STATUS = ir.IntType(32)
_C_FUNCTIONS = {"memcpy", "memmove", "memset", "memcmp", "bcmp"}
"""The functions outside the kernels that machine code may call. Every process has them."""

_globals: dict[str, dict[str, Any]] = {}
"""The global names that numba sees, by module."""
_numba_objects: dict[KernelDefinition | Intrinsic, Any] = {}
"""Numba's object of each kernel and of each intrinsic."""


def compile_kernel(kernel: KernelDefinition, symbol: str, arguments: tuple[Any, ...]) -> MachineCode:
    """Compile a kernel for arguments of these types. In the object file, the function has the name `symbol`."""
    argument_types = tuple(typeof(argument) for argument in arguments)
    with global_compiler_lock:
        dispatcher = _as_numba_object(kernel)
        dispatcher.compile(argument_types)
        compiled = dispatcher.overloads[argument_types]
        return MachineCode(_describe_result(compiled.signature.return_type), _make_object_file(compiled, symbol))


def _as_numba_object(definition: KernelDefinition | Intrinsic) -> Any:
    """Return numba's dispatcher of a kernel, or numba's intrinsic."""
    function = definition.function
    numba_globals = _make_globals(function.__globals__)
    if definition not in _numba_objects:
        copy = FunctionType(function.__code__, numba_globals, function.__name__, function.__defaults__)
        if isinstance(definition, KernelDefinition):
            inline = "always" if definition.is_inlined else "never"
            # Numba's wrappers are for calls from Python, but compiled.py does not need them. Numba's reference counts
            # (_nrt) would cost more time than the work itself.
            options = {"inline": inline, "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
            _numba_objects[definition] = njit(**options)(copy)
        else:
            _numba_objects[definition] = intrinsic(prefer_literal=definition.prefer_literal)(copy)
    return _numba_objects[definition]


def _make_globals(module_globals: dict[str, Any]) -> dict[str, Any]:
    """Return the global names of a module, with numba's objects."""
    module = module_globals["__name__"]
    if module not in _globals:
        # Functions of one module can call each other. So the dict must be known before its content is complete.
        _globals[module] = dict(module_globals)
        for name, value in module_globals.items():
            if isinstance(value, KernelDefinition | Intrinsic):
                _globals[module][name] = _as_numba_object(value)
    return _globals[module]


def _make_object_file(compiled: Any, symbol: str) -> bytes:
    """Return the machine code of a compiled kernel, as an object file with the function `symbol`."""
    context = compiled.target_context
    library = context.codegen().create_library(symbol)
    module = library.create_ir_module(symbol)
    entry = ir.Function(module, ir.FunctionType(_STATUS, [_WORD.as_pointer()] * 2), symbol)
    builder = ir.IRBuilder(entry.append_basic_block())
    argument_words, result_words = [_Words(context, builder, address) for address in entry.args]
    signature = compiled.signature
    arguments = [argument_words.read(argument_type) for argument_type in signature.args]
    function = context.declare_function(module, compiled.fndesc)
    status, result = context.call_conv.call_function(
        builder, function, signature.return_type, signature.args, arguments
    )
    with cgutils.if_likely(builder, status.is_ok):
        result_words.write(signature.return_type, result)
        builder.ret(_STATUS(0))
    builder.ret(status.code)
    library.add_ir_module(module)
    library.add_linking_library(compiled.library)
    library.finalize()
    # Numba has no public interface for the object file of a library.
    linked_module = library._final_module
    for linked_function in linked_module.functions:
        name = linked_function.name
        if linked_function.is_declaration and not name.startswith("llvm.") and name not in _C_FUNCTIONS:
            raise RuntimeError(f"the kernel {symbol} calls {name}, which does not exist without numba")
    object_file: bytes = context.codegen()._tm.emit_object(linked_module)
    return object_file


class _Words:
    """Writes the instructions that read and write words, one after another."""

    def __init__(self, context: Any, builder: Any, address: Any) -> None:
        self._context = context
        self._builder = builder
        self._address = address
        self._index = 0

    def _next_address(self) -> Any:
        address = self._builder.gep(self._address, [_WORD(self._index)])
        self._index += 1
        return address

    def _read_word(self) -> Any:
        return self._builder.load(self._next_address())

    def read(self, numba_type: Any) -> Any:
        """Read a value of a type."""
        if isinstance(numba_type, types.Array):
            return self._read_array(numba_type)
        if isinstance(numba_type, types.NoneType):
            return self._context.get_dummy_value()
        if _is_tuple(numba_type):
            items = [self.read(item_type) for item_type in numba_type.types]
            return self._context.make_tuple(self._builder, numba_type, items)
        word = self._read_word()
        if isinstance(numba_type, types.Boolean):
            return self._builder.icmp_signed("!=", word, _WORD(0))
        return self._builder.trunc(word, self._context.get_value_type(numba_type))

    def _read_array(self, array_type: Any) -> Any:
        """Read an array object of numpy. Its memory belongs to Python, so the fields `meminfo` and `parent` stay null.

        After the header of every Python object, an array object contains: the address of the data, the number of
        dimensions, the address of the shape, the address of the strides.
        """
        array_object = self._builder.inttoptr(self._read_word(), _WORD.as_pointer())
        header_words = object.__basicsize__ // 8
        data, _, shape, strides = [
            self._builder.load(self._builder.gep(array_object, [_WORD(header_words + field)])) for field in range(4)
        ]
        proxy = self._context.make_array(array_type)(self._context, self._builder)
        proxy.data = self._builder.inttoptr(data, proxy.data.type)
        dimensions = ir.ArrayType(_WORD, array_type.ndim).as_pointer()
        proxy.shape = self._builder.load(self._builder.inttoptr(shape, dimensions))
        proxy.strides = self._builder.load(self._builder.inttoptr(strides, dimensions))
        item_count = _WORD(1)
        for length in cgutils.unpack_tuple(self._builder, proxy.shape):
            item_count = self._builder.mul(item_count, length)
        proxy.nitems = item_count
        proxy.itemsize = _WORD(self._context.get_abi_sizeof(self._context.get_data_type(array_type.dtype)))
        return proxy._getvalue()

    def write(self, numba_type: Any, value: Any) -> None:
        """Write a result of a type."""
        if _is_tuple(numba_type):
            for index, item_type in enumerate(numba_type.types):
                self.write(item_type, self._builder.extract_value(value, index))
        elif not isinstance(numba_type, types.NoneType):
            is_signed = getattr(numba_type, "signed", False)
            extend = self._builder.sext if is_signed else self._builder.zext
            self._builder.store(extend(value, _WORD), self._next_address())


def _describe_result(numba_type: Any) -> ResultType:
    """Return the type of a result (arguments.py)."""
    if _is_tuple(numba_type):
        return [_describe_number(item_type) for item_type in numba_type.types]
    return _describe_number(numba_type)


def _describe_number(numba_type: Any) -> str:
    if isinstance(numba_type, types.Integer | types.Boolean | types.NoneType):
        return str(numba_type)
    raise TypeError(f"a kernel cannot return a value of numba's type {numba_type}")


def _is_tuple(numba_type: Any) -> bool:
    return isinstance(numba_type, types.BaseTuple)
