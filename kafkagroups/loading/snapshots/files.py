"""A snapshot on disk: a folder with `snapshot.json`, which names a file for each partition's shard.

A save writes new files first, then replaces `snapshot.json`, and deletes files that it no longer names last. So a crash
at any point leaves the previous snapshot intact. A shard's file is a zip: the arrays of a compiled fold, if it has one,
and everything else pickled. Reading makes only objects of this package's value classes.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kafkagroups.errors import InvalidLog, LoadFailed, UsageError
from kafkagroups.groups.classic_shard import ClassicShard
from kafkagroups.groups.group import Group, GroupRecord
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.new_shard import NewShard
from kafkagroups.groups.offsets import Offsets
from kafkagroups.groups.shard import LoadedPartition, Shard
from kafkagroups.records.versions import Dialect

FORMAT = 3
_JSON = "snapshot.json"
CHECKPOINT = "checkpoint"
"""The folder of a Spark stream's checkpoint, which may be in the same place."""


@dataclass(frozen=True)
class Manifest:
    """The content of `snapshot.json`. `partitions` has the file and the next offset of each partition."""

    number: int
    coordinator: str
    kafka: str
    partitions: dict[int | None, tuple[str, int]]


def is_there(folder: str | Path) -> bool:
    """Return whether a folder has a snapshot."""
    return Path(folder, _JSON).exists()


def name(partition: int | None, number: int, unique: str = "") -> str:
    """Return the name of a partition's file in save `number`."""
    words = ("log" if partition is None else str(partition), str(number), unique, "state")
    return ".".join(filter(None, words))


def prepare(folder: Path) -> int:
    """Make the folder and return the number of the next save. Raise UsageError if it holds something else."""
    folder.mkdir(parents=True, exist_ok=True)
    if is_there(folder):
        return read(folder).number + 1
    # The first save may have been killed before its last step.
    ours = (CHECKPOINT, f"{_JSON}.new")
    if any(not each.name.endswith(".state") and each.name not in ours for each in folder.iterdir()):
        raise UsageError(f"{folder}: expected an empty folder or one with a snapshot")
    return 1


def commit(folder: Path, number: int, dialect: Dialect, states: Mapping[int | None, tuple[str, int]]) -> None:
    """Make save `number` the folder's snapshot. `states` has the file and the next offset of each partition."""
    partitions = {json.dumps(p): {"file": file, "next_offset": offset} for p, (file, offset) in states.items()}
    manifest = {"format": FORMAT, "number": number, "coordinator": dialect.coordinator, "kafka": dialect.kafka}
    new = folder / f"{_JSON}.new"
    with open(new, "w") as file:
        json.dump({**manifest, "partitions": partitions}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, folder / _JSON)
    wanted = {entry["file"] for entry in partitions.values()}
    for old in folder.glob("*.state"):
        if old.name not in wanted:
            old.unlink(missing_ok=True)


def read(folder: Path) -> Manifest:
    """Return the content of `snapshot.json`. Raise UsageError if it is missing, InvalidLog if it is damaged."""
    try:
        content = json.loads((folder / _JSON).read_text())
        if content["format"] != FORMAT:
            raise UsageError(
                f"{folder}: expected a snapshot of format {FORMAT}, found {content['format']}: delete it to start anew"
            )
        partitions = {
            json.loads(p): (entry["file"], entry["next_offset"]) for p, entry in content["partitions"].items()
        }
        return Manifest(content["number"], content["coordinator"], content["kafka"], partitions)
    except FileNotFoundError:
        raise UsageError(f"{folder}: no snapshot.json there") from None
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidLog("no snapshot can be read from this", file=str(folder / _JSON)) from None


def check(folder: Path, dialect: Dialect) -> None:
    """Raise UsageError if the snapshot there belongs to another coordinator."""
    manifest = read(folder)
    if (manifest.coordinator, manifest.kafka) != (dialect.coordinator, dialect.kafka):
        raise UsageError(
            f"{folder}: this snapshot is of the {manifest.coordinator} coordinator of Kafka {manifest.kafka}"
        )


def write_shard(path: Path, shard: Shard) -> None:
    """Write a shard into a file. Of a failed one only the counts, the names and the failure are kept."""
    import numpy as np

    arrays: dict[str, Any] = {}
    content: dict[str, Any] = {"loaded": shard.loaded, "names": list(shard.names)}
    if shard.failure is not None:
        content["failure"] = str(shard.failure)
    else:
        content["groups"] = shard.groups
        content["removed_groups"] = list(shard.removed_groups) if isinstance(shard, ClassicShard) else []
        if isinstance(shard.offsets, Offsets):
            content["offsets"] = (shard.offsets.committed, shard.offsets.pending)
        else:
            from kafkagroups.kernels.saved import save_arrays

            arrays = save_arrays(shard.offsets)
    with open(path, "wb") as file:
        np.savez(file, rest=np.frombuffer(pickle.dumps(content), np.uint8), **arrays)
        file.flush()
        os.fsync(file.fileno())


def read_shard(path: Path, partition: int | None, dialect: Dialect) -> Shard:
    """Return the shard in a file. Raise UsageError if it cannot be opened, InvalidLog if it is damaged."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as saved:
            arrays = {array: saved[array] for array in saved.files}
        content = _Unpickler(io.BytesIO(arrays.pop("rest").tobytes())).load()
        return _restore_shard(content, arrays, partition, dialect)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except (
        zipfile.BadZipFile,
        pickle.UnpicklingError,
        ValueError,
        KeyError,
        EOFError,
        RuntimeError,
        TypeError,
        AttributeError,
        IndexError,
    ) as error:
        raise InvalidLog(f"no state can be read from this: {error}", file=str(path)) from None


def _restore_shard(content: Any, arrays: dict[str, Any], partition: int | None, dialect: Dialect) -> Shard:
    """Return the shard that was saved. Raise ValueError or another plain error if the content is not one."""
    loaded = content["loaded"]
    names = content["names"]
    if not isinstance(loaded, LoadedPartition) or not isinstance(names, list):
        raise ValueError("expected a partition and the names of its groups")
    shard_class = ClassicShard if dialect.coordinator == "classic" else NewShard
    shard = shard_class(partition, dialect, replace(loaded), names=dict.fromkeys(names))
    if "failure" in content:
        shard.failure = LoadFailed(str(content["failure"]))
        return shard
    for group_id, group in content["groups"].items():
        if not isinstance(group_id, str) or not isinstance(group, Group | ModernGroup | GroupRecord):
            raise ValueError("expected groups by their ids")
        shard.groups[group_id] = group
    if isinstance(shard, ClassicShard):
        shard.removed_groups = dict.fromkeys(content["removed_groups"])
    if arrays:
        from kafkagroups.kernels.saved import restore_offsets

        shard.offsets = restore_offsets(dialect, arrays)
    else:
        offsets = Offsets()
        offsets.committed, offsets.pending = content["offsets"]
        shard.offsets = Offsets.copy_of(offsets)
    return shard


_VALUE_MODULES = ("kafkagroups.groups.", "kafkagroups.records.")
"""The modules of the classes that a shard consists of. The class Damage of log/ is one more."""


class _Unpickler(pickle.Unpickler):
    """Makes objects of the classes that shards consist of, and no others: a foreign file cannot run anything."""

    def find_class(self, module: str, name: str) -> Any:
        is_damage = name == "Damage" and module.startswith("kafkagroups.log.")
        if is_damage or module.startswith(_VALUE_MODULES):
            with suppress(AttributeError, ImportError):
                found = super().find_class(module, name)
                if isinstance(found, type) and found.__module__ == module:
                    return found
        raise pickle.UnpicklingError(f"{module}.{name} is not a class of a state")
