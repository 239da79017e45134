"""A snapshot on disk: a folder with `snapshot.json` and one file for each partition.

The file of a partition contains a shard, which is the state of the partition (groups/shard.py). The file is a zip of
numpy arrays. If the compiled engine made the shard, the zip contains the arrays of this engine (kernels/layout.py).
The array `rest` contains the other content of the shard as a pickle. Reading the pickle can create only objects of a
few classes of this package, so that a manipulated file cannot run code.

A save first writes new files, then replaces `snapshot.json`, and then deletes the files that `snapshot.json` no longer
names. So a crash at any point leaves the previous snapshot intact.
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
from kafkagroups.records.dialects import Dialect

FORMAT = 4
"""The version of the format of `snapshot.json` and of the partitions' files."""
_MANIFEST = "snapshot.json"
CHECKPOINT = "checkpoint"
"""The name of the folder in which a Spark stream stores its progress. It is a subfolder of the snapshot's folder."""


@dataclass(frozen=True)
class Manifest:
    """The content of `snapshot.json`.

    `save_number` is 1 for the first save into the folder, 2 for the second save, and so on. `partitions` has the file
    name and the next offset of each partition. The next offset is the Kafka offset after the last batch that was read.
    """

    save_number: int
    coordinator: str
    kafka: str
    partitions: dict[int | None, tuple[str, int]]


def has_snapshot(folder: str | Path) -> bool:
    """Return whether a folder has a snapshot."""
    return Path(folder, _MANIFEST).exists()


def state_file_name(partition: int | None, save_number: int, unique_part: str = "") -> str:
    """Return the name of the file that contains the state of a partition.

    `unique_part` is a part of the name that no other file has. Spark can run a task twice, and each run needs its own
    file.
    """
    parts = ("log" if partition is None else str(partition), str(save_number), unique_part, "state")
    return ".".join(filter(None, parts))


def prepare_folder(folder: Path) -> int:
    """Create the folder if it does not exist, and return the number of the next save.

    Raise UsageError if the folder is not empty and has no snapshot.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if has_snapshot(folder):
        return read_manifest(folder).save_number + 1
    # If the first save crashes, these files can be in the folder without a snapshot.json.
    own_names = (CHECKPOINT, f"{_MANIFEST}.new")
    if any(not entry.name.endswith(".state") and entry.name not in own_names for entry in folder.iterdir()):
        raise UsageError(f"{folder}: expected an empty folder or one with a snapshot")
    return 1


def commit_save(folder: Path, save_number: int, dialect: Dialect, states: Mapping[int | None, tuple[str, int]]) -> None:
    """Replace the snapshot of a folder, and delete the files of the old snapshot that are no longer used.

    The files of the new snapshot must already be in the folder. `states` has the file name and the next offset of each
    partition.
    """
    partitions = {
        json.dumps(partition): {"file": file, "next_offset": offset} for partition, (file, offset) in states.items()
    }
    manifest = {"format": FORMAT, "number": save_number, "coordinator": dialect.coordinator, "kafka": dialect.kafka}
    new_manifest = folder / f"{_MANIFEST}.new"
    with open(new_manifest, "w") as file:
        json.dump({**manifest, "partitions": partitions}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new_manifest, folder / _MANIFEST)
    used_files = {entry["file"] for entry in partitions.values()}
    for state_file in folder.glob("*.state"):
        if state_file.name not in used_files:
            state_file.unlink(missing_ok=True)


def read_manifest(folder: Path) -> Manifest:
    """Return the content of `snapshot.json`. Raise UsageError if the file is missing, InvalidLog if it is damaged."""
    try:
        content = json.loads((folder / _MANIFEST).read_text())
        if content["format"] != FORMAT:
            raise UsageError(
                f"{folder}: expected a snapshot of format {FORMAT}, found format {content['format']}: "
                "delete the snapshot to start again"
            )
        partitions = {
            json.loads(partition): (entry["file"], entry["next_offset"])
            for partition, entry in content["partitions"].items()
        }
        return Manifest(content["number"], content["coordinator"], content["kafka"], partitions)
    except FileNotFoundError:
        raise UsageError(f"{folder}: no snapshot.json in this folder") from None
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidLog("the snapshot cannot be read", file=str(folder / _MANIFEST)) from None


def check_dialect(folder: Path, dialect: Dialect) -> None:
    """Raise UsageError if another coordinator or another Kafka version has read the snapshot in a folder."""
    manifest = read_manifest(folder)
    if (manifest.coordinator, manifest.kafka) != (dialect.coordinator, dialect.kafka):
        raise UsageError(
            f"{folder}: this snapshot is of the {manifest.coordinator} coordinator of Kafka {manifest.kafka}"
        )


def write_shard(path: Path, shard: Shard) -> None:
    """Write a shard into a file. If the load has failed, write only the counts, the group ids and the failure."""
    import numpy as np

    arrays: dict[str, Any] = {}
    content: dict[str, Any] = {"loaded": shard.loaded, "names": list(shard.seen_group_ids)}
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
    """Return the shard in a file. Raise UsageError if the file cannot be opened, or InvalidLog if it is damaged."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as saved:
            arrays = {name: saved[name] for name in saved.files}
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
        raise InvalidLog(f"the state cannot be read: {error}", file=str(path)) from None


def _restore_shard(content: Any, arrays: dict[str, Any], partition: int | None, dialect: Dialect) -> Shard:
    """Return the shard that was saved. Raise ValueError or another built-in exception if the content is damaged.

    `content` is the object in the pickle. `arrays` are the arrays of the compiled engine by name. There are no arrays
    if the readable engine made the shard.
    """
    loaded = content["loaded"]
    names = content["names"]
    if not isinstance(loaded, LoadedPartition) or not isinstance(names, list):
        raise ValueError("expected the counts of a partition and a list of group ids")
    shard_class = ClassicShard if dialect.coordinator == "classic" else NewShard
    shard = shard_class(partition, dialect, replace(loaded), seen_group_ids=dict.fromkeys(names))
    if "failure" in content:
        shard.failure = LoadFailed(str(content["failure"]))
        return shard
    for group_id, group in content["groups"].items():
        if not isinstance(group_id, str) or not isinstance(group, Group | ModernGroup | GroupRecord):
            raise ValueError("expected a mapping of group ids to groups")
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
"""The packages of the classes that a shard contains. One more class, `Damage`, is in the package `log`."""


class _Unpickler(pickle.Unpickler):
    """An unpickler that creates only objects of the classes that a shard contains."""

    def find_class(self, module: str, name: str) -> Any:
        is_damage = name == "Damage" and module.startswith("kafkagroups.log.")
        if is_damage or module.startswith(_VALUE_MODULES):
            with suppress(AttributeError, ImportError):
                value_class = super().find_class(module, name)
                if isinstance(value_class, type) and value_class.__module__ == module:
                    return value_class
        raise pickle.UnpicklingError(f"{module}.{name} is not a class of a state")
