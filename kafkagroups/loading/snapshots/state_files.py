"""The file of one partition in a snapshot: one line of JSON, and then the bytes of arrays.

The JSON contains the coordinator, the Kafka version, the partition, the shard (saved_shards.py), and the type and the
shape of each array. The arrays follow in the same order, without bytes between them. Their numbers are little-endian.
Only shards of the compiled engine have arrays (kernels/saved.py).

`snapshot.json` (files.py) contains the size and the checksum of each file. So a file that was damaged, or replaced by a
file of another snapshot, is refused before it is parsed. Somebody can prepare a file with the right checksum. So all
content is checked before it is used, and nothing in it can run code.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from io import BufferedReader
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkagroups.errors import InvalidLog
from kafkagroups.groups.offsets import Offsets
from kafkagroups.groups.shard import Shard
from kafkagroups.loading.engines import choose_engine
from kafkagroups.loading.snapshots.json_checks import (
    Schema,
    choice_of,
    exactly,
    list_of,
    map_of,
    parse_json,
    read_count,
    read_object,
    write_json,
)
from kafkagroups.loading.snapshots.opening import open_file, open_new_file
from kafkagroups.loading.snapshots.saved_shards import read_shard, shard_to_json
from kafkagroups.log.checksums import crc32c
from kafkagroups.records.dialects import Dialect

if TYPE_CHECKING:
    from kafkagroups.kernels.arrays import Array

_ITEM_BYTES_BY_DTYPE = {"<i8": 8, "|u1": 1}
"""How many bytes a number has, by numpy's name of its type."""
_ARRAY: Schema = {"dtype": choice_of(*_ITEM_BYTES_BY_DTYPE), "shape": list_of(read_count)}


class SavedState(NamedTuple):
    """What a snapshot contains about the file of one partition.

    `next_offset` is the offset after the last batch that was read. `size` is the number of bytes of the file, and
    `checksum` is the CRC-32C of these bytes.
    """

    file: str
    next_offset: int
    size: int
    checksum: int


def write_state(folder: Path, file_name: str, shard: Shard) -> SavedState:
    """Write a shard into a new file of a snapshot's folder."""
    arrays: dict[str, Array] = {}
    if shard.failure is None and not isinstance(shard.offsets, Offsets):
        from kafkagroups.kernels.saved import save_arrays

        arrays = save_arrays(shard)
    content = {
        "coordinator": shard.dialect.coordinator,
        "kafka": shard.dialect.kafka,
        "partition": shard.partition,
        "shard": shard_to_json(shard),
        "arrays": {
            name: {"dtype": "|u1" if array.itemsize == 1 else "<i8", "shape": list(array.shape)}
            for name, array in arrays.items()
        },
    }
    size = 0
    checksum = 0
    with open_new_file(folder / file_name) as file:
        for part in (write_json(content) + b"\n", *map(_bytes_of, arrays.values())):
            file.write(part)
            size += len(part)
            checksum = crc32c(part, checksum)
    return SavedState(file_name, shard.loaded.next_offset, size, checksum)


def read_state(folder: Path, saved: SavedState, partition: int | None, dialect: Dialect) -> Shard:
    """Return the shard in a file. Raise UsageError if the file cannot be opened, InvalidLog if it is damaged."""
    with open_file(folder / saved.file, "state") as file:
        size = os.fstat(file.fileno()).st_size
        if size != saved.size:
            raise InvalidLog(f"expected {saved.size} bytes, found {size} bytes")
        line = file.readline()
        array_bytes = _read_rest(file, size - len(line))
        checksum = crc32c(array_bytes, crc32c(line))
        if checksum != saved.checksum:
            raise InvalidLog(f"expected checksum {saved.checksum:08x}, the bytes give {checksum:08x}")
        schema: Schema = {
            "coordinator": exactly(dialect.coordinator),
            "kafka": exactly(dialect.kafka),
            "partition": exactly(partition),
            "arrays": map_of(lambda value: read_object(value, _ARRAY)),
            "shard": lambda value: value,  # read_shard checks it.
        }
        content = read_object(parse_json(line), schema)
        arrays = _split(array_bytes, content["arrays"])
        shard = read_shard(content["shard"], partition, dialect, has_arrays=bool(arrays))
        if shard.loaded.next_offset != saved.next_offset:
            raise InvalidLog(f"expected next offset {saved.next_offset}, found {shard.loaded.next_offset}")
        if arrays:
            choose_engine("compiled", 0)  # This raises UsageError if numba is not installed.
            from kafkagroups.kernels.saved import restore_arrays

            restore_arrays(shard, arrays)
        return shard


def _read_rest(file: BufferedReader, size: int) -> bytearray:
    """Return the last `size` bytes of a file, in memory that arrays can use."""
    data = bytearray(size)
    if file.readinto(data) < size:
        raise InvalidLog("the file became shorter while it was read")
    return data


def _split(array_bytes: bytearray, headers: Mapping[str, dict[str, Any]]) -> dict[str, Array]:
    """Return the arrays in the bytes after the JSON. `headers` has the type and the shape of each array, in order."""
    sizes = [_ITEM_BYTES_BY_DTYPE[header["dtype"]] * prod(header["shape"]) for header in headers.values()]
    if sum(sizes) != len(array_bytes):
        raise InvalidLog(f"expected {sum(sizes)} bytes of arrays, found {len(array_bytes)}", field="arrays")
    if not headers:
        return {}
    import numpy as np

    memory = np.frombuffer(array_bytes, np.uint8)
    arrays = {}
    end = 0
    for (name, header), size in zip(headers.items(), sizes, strict=True):
        start = end
        end += size
        try:
            arrays[name] = memory[start:end].view(header["dtype"]).reshape(header["shape"])
        except ValueError:
            raise InvalidLog("expected an array of at most 64 dimensions", field=f"arrays.{name}") from None
    return arrays


def _bytes_of(array: Array) -> Any:
    """Return the bytes of an array in the order of the file, without a copy on a little-endian computer."""
    little_endian = array.astype("<i8" if array.itemsize == 8 else "|u1", copy=False)
    return little_endian.reshape(-1).view("|u1")
