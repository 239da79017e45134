"""The file of one partition in a snapshot: one line of JSON.

The JSON contains the coordinator, the Kafka version, the partition and the shard (saved_shards.py).

`snapshot.json` (files.py) contains the size and the checksum of each file. So a file that was damaged, or replaced by a
file of another snapshot, is refused before it is parsed. Somebody can prepare a file with the right checksum. So all
content is checked before it is used, and nothing in it can run code.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from kafkagroups.errors import InvalidLog
from kafkagroups.groups.shard import Shard
from kafkagroups.loading.snapshots.json_checks import Schema, exactly, parse_json, read_object, write_json
from kafkagroups.loading.snapshots.opening import open_file, open_new_file
from kafkagroups.loading.snapshots.saved_shards import read_shard, shard_to_json
from kafkagroups.log.checksums import crc32c
from kafkagroups.records.dialects import Dialect


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
    content = {
        "coordinator": shard.dialect.coordinator,
        "kafka": shard.dialect.kafka,
        "partition": shard.partition,
        "shard": shard_to_json(shard),
    }
    line = write_json(content) + b"\n"
    with open_new_file(folder / file_name) as file:
        file.write(line)
    return SavedState(file_name, shard.loaded.next_offset, len(line), crc32c(line))


def read_state(folder: Path, saved: SavedState, partition: int | None, dialect: Dialect) -> Shard:
    """Return the shard in a file. Raise UsageError if the file cannot be opened, InvalidLog if it is damaged."""
    with open_file(folder / saved.file, "state") as file:
        size = os.fstat(file.fileno()).st_size
        if size != saved.size:
            raise InvalidLog(f"expected {saved.size} bytes, found {size} bytes")
        line = file.read(size)
        if len(line) < size:
            raise InvalidLog("the file became shorter while it was read")
        checksum = crc32c(line)
        if checksum != saved.checksum:
            raise InvalidLog(f"expected checksum {saved.checksum:08x}, the bytes give {checksum:08x}")
        schema: Schema = {
            "coordinator": exactly(dialect.coordinator),
            "kafka": exactly(dialect.kafka),
            "partition": exactly(partition),
            "shard": lambda value: value,  # read_shard checks it.
        }
        shard = read_shard(read_object(parse_json(line), schema)["shard"], partition, dialect)
        if shard.loaded.next_offset != saved.next_offset:
            raise InvalidLog(f"expected next offset {saved.next_offset}, found {shard.loaded.next_offset}")
        return shard
