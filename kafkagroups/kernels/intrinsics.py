"""CPU instructions that numba does not offer: unaligned loads, copies, prefetching, 128-bit products, CRC-32C.

An intrinsic is a function that kernels (compiled.py) can call. Its Python code runs when numba compiles the kernel.
This code returns the types of the call, and a function `generate` that writes LLVM instructions into the kernel.

No intrinsic checks whether a position is inside its array, so kernels must check positions. Only `prefetch` accepts
every position.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kafkagroups.kernels.compiled import intrinsic, literal_intrinsic


class _LazyModule:
    """A module that is imported when one of its attributes is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


# Only a process that compiles needs these modules.
ir: Any = _LazyModule("llvmlite.ir")
types: Any = _LazyModule("numba.types")
cgutils: Any = _LazyModule("numba.core.cgutils")


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return the address of an array element. The first two arguments of the call are the array and the index."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(array.data, [arguments[1]])


@intrinsic
def load64(typing: Any, data: Any, position: Any) -> Any:
    """Return the 8 bytes at a position of a uint8 array as a little-endian uint64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.bitcast(_address(context, builder, signature, arguments), ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(data, types.int64), generate


@intrinsic
def load8(typing: Any, data: Any, position: Any) -> Any:
    """Return the byte at a position of a uint8 array as an int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.zext(builder.load(_address(context, builder, signature, arguments)), ir.IntType(64))

    return types.int64(data, types.int64), generate


@literal_intrinsic
def load_big_endian(typing: Any, data: Any, position: Any, bits: Any) -> Any:
    """Return the signed big-endian number at a position of a uint8 array as an int64. `bits` is 16, 32 or 64."""
    integer_type = ir.IntType(bits.literal_value)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.bitcast(_address(context, builder, signature, arguments), integer_type.as_pointer())
        value = builder.bswap(builder.load(pointer, align=1))
        return builder.sext(value, ir.IntType(64)) if integer_type.width < 64 else value

    return types.int64(data, types.int64, bits), generate


@intrinsic
def prefetch(typing: Any, data: Any, position: Any) -> Any:
    """Start to load the memory at a position into the CPU's cache. The position may be outside the array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.bitcast(_address(context, builder, signature, arguments), ir.IntType(8).as_pointer())
        function_type = ir.FunctionType(ir.VoidType(), [pointer.type, ir.IntType(32), ir.IntType(32), ir.IntType(32)])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        # 0: the memory will be read. 3: keep it in all caches. 1: it is data, not code.
        builder.call(function, [pointer, ir.IntType(32)(0), ir.IntType(32)(3), ir.IntType(32)(1)])
        return context.get_dummy_value()

    return types.void(data, types.int64), generate


@intrinsic
def xor_product_halves(typing: Any, left: Any, right: Any) -> Any:
    """Multiply two uint64, and return the exclusive or (xor) of the two halves of the 128-bit product."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        product = builder.mul(*(builder.zext(argument, ir.IntType(128)) for argument in arguments))
        upper = builder.trunc(builder.lshr(product, ir.IntType(128)(64)), ir.IntType(64))
        return builder.xor(upper, builder.trunc(product, ir.IntType(64)))

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def add_to_crc32c(typing: Any, crc: Any, number: Any) -> Any:
    """Return the checksum (CRC-32C) of the data of `crc` and the bytes of an unsigned number after it.

    The compilation fails on a CPU without SSE 4.2.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function_type = ir.FunctionType(ir.IntType(64), [ir.IntType(64), ir.IntType(number.bitwidth)])
        function = cgutils.get_or_insert_function(
            builder.module, function_type, f"llvm.x86.sse42.crc32.64.{number.bitwidth}"
        )
        return builder.call(function, arguments)

    return types.uint64(types.uint64, number), generate


@intrinsic
def copy_bytes(typing: Any, source: Any, source_start: Any, target: Any, target_start: Any, size: Any) -> Any:
    """Copy `size` bytes from one uint8 array to another. The two byte ranges must not overlap."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source_address = _address(context, builder, signature, arguments)
        array = context.make_array(signature.args[2])(context, builder, arguments[2])
        cgutils.raw_memcpy(builder, builder.gep(array.data, [arguments[3]]), source_address, arguments[4], 1)
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64, types.int64), generate
