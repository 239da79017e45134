"""The arguments of a kernel as words: signed numbers of 64 bits, which Python passes to machine code.

| argument | words | type |
|---|---|---|
| array | the address of the array object | "int64[2d C]": the dtype, the dimensions, the order and the flags |
| int, numpy integer, bool | the number | the name of the dtype |
| None | no words | "none" |
| named tuple (layout.Tables) | the words of its items | the name of the class and the types of its items |

A result is a number, a bool, None, or a tuple of numbers and bools. The type of a result is the name of a dtype,
"none", or a list of these names.

numba_code.py makes the machine code that reads and writes the words. Numba's type of an argument depends only on the
argument's type here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ResultType = str | list[str]
Words = list[int]
TypeKey = list[type | int]

_DTYPES = [np.dtype(code) for code in np.typecodes["AllInteger"] + "?"]
"""The dtypes that an array can have. Numpy has one object for each of them, which is never deleted."""
_BOOLS_AND_INTS = (int, np.bool_)


def add_argument(argument: Any, words: Words, type_key: TypeKey) -> None:
    """Add the words of an argument to `words`, and a description of its type to `type_key`.

    The words contain addresses, so the argument must exist until the kernel ends. In one process, arguments with equal
    keys have the same type (`describe_type`). Call `describe_type` for a new key, because it refuses some arguments.
    """
    if isinstance(argument, np.ndarray):
        words.append(id(argument))
        type_key.append(id(argument.dtype))
        type_key.append(argument.ndim)
        type_key.append(argument.flags.num)
        return
    type_key.append(type(argument))
    if isinstance(argument, tuple):
        for item in argument:
            add_argument(item, words, type_key)
    elif isinstance(argument, _BOOLS_AND_INTS):
        words.append(int(argument))
    elif argument is not None:
        # A word is signed, so a uint64 becomes the signed number that has the same bits.
        words.append(int(np.int64(argument)) if isinstance(argument, np.integer) else 0)


def describe_type(argument: Any) -> str:
    """Return the type of an argument. Raise TypeError for a value that a kernel cannot receive."""
    if isinstance(argument, np.ndarray):
        if not any(argument.dtype is dtype for dtype in _DTYPES):
            raise TypeError(f"a kernel cannot receive an array of {argument.dtype}")
        # For numba, an array of one row has C order, although it also has Fortran order.
        flags = argument.flags
        other_order = "F" if flags.f_contiguous else "A"
        order = "C" if flags.c_contiguous else other_order
        limits = ("" if flags.writeable else " readonly") + ("" if flags.aligned else " unaligned")
        return f"{argument.dtype.name}[{argument.ndim}d {order}{limits}]"
    if argument is None:
        return "none"
    if isinstance(argument, bool | np.bool_):
        return "bool"
    if type(argument) is int:
        return "int64"
    if isinstance(argument, np.integer):
        return argument.dtype.name
    if isinstance(argument, tuple) and hasattr(argument, "_fields"):
        items = ", ".join(describe_type(item) for item in argument)
        return f"{type(argument).__module__}.{type(argument).__qualname__}({items})"
    raise TypeError(f"a kernel cannot receive a {type(argument).__name__}")


def count_result_words(result_type: ResultType) -> int:
    """Return the number of words of a result."""
    if isinstance(result_type, list):
        return len(result_type)
    return 0 if result_type == "none" else 1


def read_result(result_type: ResultType, words: Words) -> Any:
    """Return the result in the words."""
    if isinstance(result_type, list):
        return tuple([_read_number(*item) for item in zip(result_type, words, strict=True)])
    return None if result_type == "none" else _read_number(result_type, words[0])


def _read_number(result_type: str, word: int) -> int | bool:
    if result_type == "bool":
        return bool(word)
    return word & (1 << 64) - 1 if result_type == "uint64" else word
