"""Numpy arrays as Arrow arrays, made from their buffers.

`pa.array` is not used, because it would import pandas, which takes long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kafkagroups.tables.columns import MIN_TIMESTAMP_MS, TIMESTAMP_END_MS, to_arrow_array

if TYPE_CHECKING:
    import pyarrow as pa


class Texts(Protocol):
    """Texts in Arrow's layout: the bytes of all texts, and the positions where they end."""

    @property
    def ends(self) -> Any: ...

    @property
    def content(self) -> Any: ...


def make_strings(texts: Texts, is_present: Any = True, *, type_name: str = "string") -> pa.Array:
    """Return texts as an Arrow array. `type_name` can be "binary": then the texts are bytes.

    `is_present` is a bool array that is False for each null; True means that no text is null.
    """
    import pyarrow as pa

    buffers = [_null_buffer(is_present), pa.py_buffer(texts.ends), pa.py_buffer(texts.content)]
    return pa.Array.from_buffers(pa.type_for_alias(type_name), len(texts.ends) - 1, buffers)


def make_names(names: Sequence[str], numbers: Any, is_present: Any = True) -> pa.Array:
    """Return an Arrow array with the name of each number: `names[number]`."""
    import pyarrow as pa

    name_array = to_arrow_array(pa.string(), names)
    return name_array.take(make_numbers("int32", numbers, is_present))


def make_booleans(values: Any) -> pa.Array:
    """Return bools as an Arrow array."""
    import numpy as np
    import pyarrow as pa

    bits = pa.py_buffer(np.packbits(values.astype(bool), bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, bits])


def make_nulls(type_name: str, count: int) -> pa.Array:
    """Return an Arrow array of nulls."""
    import pyarrow as pa

    return pa.nulls(count, pa.type_for_alias(type_name))


def make_numbers(type_name: str, values: Any, is_present: Any = True) -> pa.Array:
    """Return numbers as an Arrow array of this type. `is_present` is that of `make_strings`."""
    import pyarrow as pa

    return pa.Array.from_buffers(
        pa.type_for_alias(type_name), len(values), [_null_buffer(is_present), pa.py_buffer(values.astype(type_name))]
    )


def make_timestamps(times_ms: Any, is_present: Any = True) -> pa.Array:
    """Return times (ms since the epoch) as Arrow timestamps. A timestamp is null if its year is outside pandas' range.

    `is_present` says which times are not null (see `make_strings`).
    """
    import numpy as np
    import pyarrow as pa

    is_present = is_present & (times_ms >= MIN_TIMESTAMP_MS) & (times_ms < TIMESTAMP_END_MS)
    microseconds = np.where(is_present, times_ms, 0) * 1000
    buffers = [_null_buffer(is_present), pa.py_buffer(microseconds.astype("int64"))]
    return pa.Array.from_buffers(pa.timestamp("us", "UTC"), len(times_ms), buffers)


def _null_buffer(is_present: Any) -> pa.Buffer | None:
    """Return the Arrow buffer whose bits say which rows are not null, or None if no row is null."""
    import numpy as np
    import pyarrow as pa

    return None if np.all(is_present) else pa.py_buffer(np.packbits(is_present, bitorder="little"))
