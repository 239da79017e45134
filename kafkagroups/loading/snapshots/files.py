"""A snapshot on disk: a folder with `snapshot.json`, and a file of state for each partition.

`snapshot.json` names the coordinator and, for each partition, its file and its next offset. A save writes new files
first and then puts a new `snapshot.json` in place; files that it no longer names go at last. So whoever dies in between
has lost nothing. A state is a zip: the arrays of a fold, if it has one, and the rest pickled; only classes of this
package are made of that.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.loading.groups import LoadedPartition
from kafkagroups.loading.snapshots.states import PartitionState
from kafkagroups.records.versions import Dialect

FORMAT = 2
_JSON = "snapshot.json"
CHECKPOINT = "checkpoint"
"""A folder that a stream may have there."""


@dataclass(frozen=True)
class Said:
    """What `snapshot.json` says; `partitions` has the file and the next offset of each."""

    number: int
    coordinator: str
    kafka: str
    partitions: dict[int | None, tuple[str, int]]


def is_there(folder: str | Path) -> bool:
    return Path(folder, _JSON).exists()


def name(partition: int | None, number: int, unique: str = "") -> str:
    words = ("log" if partition is None else str(partition), str(number), unique, "state")
    return ".".join(filter(None, words))


def prepare(folder: Path) -> int:
    """Makes the folder, and gives the number of the next save. UsageError: something else is in it."""
    folder.mkdir(parents=True, exist_ok=True)
    if is_there(folder):
        return read(folder).number + 1
    ours = (CHECKPOINT, f"{_JSON}.new")  # the first save may have died before its last step
    if any(not each.name.endswith(".state") and each.name not in ours for each in folder.iterdir()):
        raise UsageError(f"{folder}: an empty folder or one with a snapshot was expected")
    return 1


def commit(folder: Path, number: int, rules: Dialect, states: Mapping[int | None, tuple[str, int]]) -> None:
    """Makes save `number` the snapshot of the folder: the file and the next offset of each partition's state."""
    partitions = {json.dumps(p): {"file": file, "next_offset": offset} for p, (file, offset) in states.items()}
    said = {"format": FORMAT, "number": number, "coordinator": rules.coordinator, "kafka": rules.kafka}
    new = folder / f"{_JSON}.new"
    with open(new, "w") as file:
        json.dump({**said, "partitions": partitions}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, folder / _JSON)
    wanted = {there["file"] for there in partitions.values()}
    for old in folder.glob("*.state"):
        if old.name not in wanted:
            old.unlink(missing_ok=True)


def read(folder: Path) -> Said:
    """UsageError: there is no snapshot. InvalidLog: it is damaged."""
    try:
        said = json.loads((folder / _JSON).read_text())
        if said["format"] != FORMAT:
            raise UsageError(f"{folder}: a snapshot of format {FORMAT} was expected, not {said['format']}")
        partitions = {json.loads(p): (there["file"], there["next_offset"]) for p, there in said["partitions"].items()}
        return Said(said["number"], said["coordinator"], said["kafka"], partitions)
    except FileNotFoundError:
        raise UsageError(f"{folder}: no snapshot.json there") from None
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidLog("no snapshot can be read from this", file=str(folder / _JSON)) from None


def check(folder: Path, rules: Dialect) -> None:
    """UsageError when the snapshot there is another coordinator's."""
    said = read(folder)
    if (said.coordinator, said.kafka) != (rules.coordinator, rules.kafka):
        raise UsageError(f"{folder}: this snapshot is of the {said.coordinator} coordinator of Kafka {said.kafka}")


def write_state(path: Path, state: PartitionState) -> None:
    import numpy as np

    arrays: Any = state.fold.saved() if state.fold is not None else {}
    rest = pickle.dumps((state.loaded, state.names, state.shard))
    with open(path, "wb") as file:
        np.savez(file, rest=np.frombuffer(rest, np.uint8), **arrays)
        file.flush()
        os.fsync(file.fileno())


def read_state(path: Path, rules: Dialect) -> PartitionState:
    """UsageError: it cannot be opened. InvalidLog: it is damaged."""
    import numpy as np

    from kafkagroups.kernels.saved import check as check_arrays

    try:
        with np.load(path, allow_pickle=False) as saved:
            arrays = {array: saved[array] for array in saved.files}
        loaded, names, shard = _Unpickler(io.BytesIO(arrays.pop("rest").tobytes())).load()
        if not isinstance(loaded, LoadedPartition) or not isinstance(names, list):
            raise ValueError("a partition and its groups' names were expected")
        if arrays:
            check_arrays(arrays)
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
    if not arrays:
        return PartitionState(loaded, names, shard)
    from kafkagroups.kernels.state import Fold

    return PartitionState(loaded, names, shard, Fold.restored(rules, arrays))


_VALUES = ("kafkagroups.groups.", "kafkagroups.records.", "kafkagroups.kernels.kept_group")
_MORE_VALUES = (("kafkagroups.loading.groups", "LoadedPartition"), ("kafkagroups.log.segments", "Damage"))
"""What a state consists of: modules of values, and two classes."""


class _Unpickler(pickle.Unpickler):
    """Makes instances of the classes that states consist of: a file from elsewhere cannot run anything."""

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith(_VALUES) or (module, name) in _MORE_VALUES:
            with suppress(AttributeError, ImportError):
                found = super().find_class(module, name)
                if isinstance(found, type) and found.__module__ == module:
                    return found
        raise pickle.UnpicklingError(f"{module}.{name} is no class of a state")
