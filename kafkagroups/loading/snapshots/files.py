"""A snapshot on disk: a folder with `snapshot.json` and one file for each partition.

`snapshot.json` contains the name, the size and the checksum of each partition's file (state_files.py), and a checksum
of its own content.

A save first writes new files, then replaces `snapshot.json`, and then deletes the files that `snapshot.json` no longer
names. So a crash at any point leaves the previous snapshot intact.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.loading.snapshots.json_checks import (
    Schema,
    describe,
    exactly,
    map_of,
    number_from,
    parse_json,
    read_count,
    read_int64,
    read_object,
    read_text,
    write_json,
)
from kafkagroups.loading.snapshots.opening import ADVICE, open_file, open_new_file
from kafkagroups.loading.snapshots.state_files import SavedState
from kafkagroups.log.checksums import crc32c
from kafkagroups.records import dialects
from kafkagroups.records.dialects import Dialect

FORMAT = 10
"""The number of the format of a snapshot. Files of format 4 or older contain pickles, so they are never opened. Files
of format 5 do not contain the zeros at the end of a log (log/zeros.py), and files of format 8 can contain arrays."""
_MANIFEST = "snapshot.json"
_MAX_SAVE_NUMBER = 10**15
CHECKPOINT = "checkpoint"
"""The name of the subfolder in which a Spark stream (spark/keeping.py) stores its progress."""
_STATE_NAME = re.compile(r"(log|[0-9]+)\.[0-9]+(\.[0-9a-f]+)?\.state")
"""Matches the names that `state_file_name` returns. No other file is opened, whatever `snapshot.json` contains."""


@dataclass(frozen=True)
class Manifest:
    """The content of `snapshot.json`.

    `save_number` is 1 for the first save into the folder, 2 for the second save, and so on. `dialect` is the
    coordinator and the Kafka version that read the logs. `states` describes the file of each partition.
    """

    save_number: int
    dialect: Dialect
    states: dict[int | None, SavedState]


def has_snapshot(folder: str | Path) -> bool:
    """Return whether a folder has a snapshot. Raise UsageError if the folder cannot be read."""
    try:
        return Path(folder, _MANIFEST).exists()
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None


def state_file_name(partition: int | None, save_number: int, unique_part: str = "") -> str:
    """Return the name of the file that contains the state of a partition.

    `unique_part` (hexadecimal digits) is for Spark, which can run a task twice: each run needs its own file.
    """
    parts = ("log" if partition is None else str(partition), str(save_number), unique_part, "state")
    return ".".join(filter(None, parts))


def prepare_folder(folder: Path) -> int:
    """Create the folder if it does not exist, and return the number of the next save.

    Raise UsageError if the folder cannot be used, or if it is not empty and has no snapshot.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = [entry.name for entry in folder.iterdir()]
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None
    if _MANIFEST in names:
        # Nobody saves so often, but a forged snapshot can contain any number.
        return read_manifest(folder).save_number % _MAX_SAVE_NUMBER + 1
    # After a crash in the first save, the folder can contain these files and state files, but no snapshot.json.
    own_names = (CHECKPOINT, f"{_MANIFEST}.new")
    if any(not name.endswith(".state") and name not in own_names for name in names):
        raise UsageError(f"{folder}: expected an empty folder or one with a snapshot")
    return 1


def commit_save(folder: Path, save_number: int, dialect: Dialect, states: Mapping[int | None, SavedState]) -> None:
    """Replace the snapshot of a folder, and delete the files of the old snapshot that are no longer used.

    The files of the new snapshot must already be in the folder. `states` describes the file of each partition.
    """
    content = {
        "format": FORMAT,
        "number": save_number,
        "coordinator": dialect.coordinator,
        "kafka": dialect.kafka,
        "partitions": {json.dumps(partition): saved._asdict() for partition, saved in states.items()},
    }
    new_manifest = folder / f"{_MANIFEST}.new"
    with open_new_file(new_manifest) as file:
        file.write(json.dumps({**content, "checksum": _checksum(content)}, indent=1).encode())
    os.replace(new_manifest, folder / _MANIFEST)
    used_files = {saved.file for saved in states.values()}
    for state_file in folder.glob("*.state"):
        if state_file.name not in used_files and state_file.is_file():
            state_file.unlink(missing_ok=True)


def read_manifest(folder: Path) -> Manifest:
    """Return the content of `snapshot.json`.

    Raise UsageError if there is no snapshot or it has another format, and InvalidLog if the file is damaged.
    """
    path = folder / _MANIFEST
    if not has_snapshot(folder):
        raise UsageError(f"{folder}: no {_MANIFEST} in this folder")
    with open_file(path, "snapshot") as file:
        content = parse_json(file.read())
        found_format = content.get("format") if isinstance(content, dict) else None
        if type(found_format) is int and found_format != FORMAT:
            raise UsageError(f"{folder}: expected a snapshot of format {FORMAT}, found format {found_format}; {ADVICE}")
        fields = read_object(content, _MANIFEST_FIELDS)
        del content["checksum"]
        if fields["checksum"] != _checksum(content):
            raise InvalidLog(f"expected checksum {fields['checksum']:08x}, found {_checksum(content):08x}")
        try:
            dialect = dialects.dialect(fields["coordinator"], fields["kafka"])
        except UsageError as error:
            raise InvalidLog(error.reason) from None
        return Manifest(fields["number"], dialect, fields["partitions"])


def check_dialect(folder: Path, dialect: Dialect) -> None:
    """Raise UsageError if the snapshot in a folder is of another coordinator or Kafka version."""
    saved = read_manifest(folder).dialect
    if (saved.coordinator, saved.kafka) != (dialect.coordinator, dialect.kafka):
        raise UsageError(f"{folder}: this snapshot is of the {saved.coordinator} coordinator of Kafka {saved.kafka}")


def _checksum(content: dict[str, Any]) -> int:
    """Return the checksum of the content of `snapshot.json`, written without spaces and line breaks."""
    return crc32c(write_json(content))


def _read_partitions(value: Any) -> dict[int | None, SavedState]:
    states = map_of(lambda state: SavedState(**read_object(state, _SAVED_STATE_FIELDS)))(value)
    return {_read_partition(text): saved for text, saved in states.items()}


def _read_partition(text: str) -> int | None:
    """Return the partition number for a key of `partitions` in `snapshot.json`; None for the key "null"."""
    if not re.fullmatch("null|0|[1-9][0-9]{0,9}", text):
        raise InvalidLog(f"expected a partition, found {describe(text)}")
    return None if text == "null" else int(text)


def _read_state_name(value: Any) -> str:
    if not _STATE_NAME.fullmatch(read_text(value)):
        raise InvalidLog(f"expected the name of a state file, found {describe(value)}")
    return str(value)


_read_checksum = number_from(0, (1 << 32) - 1)
_SAVED_STATE_FIELDS: Schema = {
    "file": _read_state_name,
    "next_offset": read_int64,
    "size": read_count,
    "checksum": _read_checksum,
}
_MANIFEST_FIELDS: Schema = {
    "format": exactly(FORMAT),
    "number": number_from(0, _MAX_SAVE_NUMBER),
    "coordinator": read_text,
    "kafka": read_text,
    "partitions": _read_partitions,
    "checksum": _read_checksum,
}
