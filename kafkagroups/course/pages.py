"""Small helpers of a lesson's page: where the data is, what you predicted, what a broker said."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafkagroups.errors import UsageError
from kafkagroups.loading.groups import Groups
from kafkagroups.log.segments import open_log


def data(name: str) -> str:
    """The path of something in `data/`, found upwards from here, relative so that it is the same on every machine.

    UsageError when there is no such folder above.
    """
    return os.path.relpath(above(f"data/{name}"))


def above(name: str) -> Path:
    """A file or folder of the project, found upwards from here. UsageError when there is no such."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / name).exists():
            return folder / name
    raise UsageError(f"no {name} in this folder or above it: open the notebook where the project was cloned")


class _Prints(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print(f"    {record.levelname} {record.getMessage()}")


@contextmanager
def server_log() -> Iterator[None]:
    """Prints what a coordinator says in its server's log in the meantime."""
    log, prints = logging.getLogger("kafkagroups.coordinator"), _Prints()
    was = log.level
    log.addHandler(prints)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(prints)
        log.setLevel(was)


def beside(prediction: Any, answer: Any) -> None:
    """Prints what was predicted beside what is; `...` is no prediction."""
    if prediction is ...:
        print(f"it is {answer!r}; you made no prediction")
    elif prediction == answer:
        print(f"it is {answer!r}, as you predicted")
    else:
        print(f"it is {answer!r}; you predicted {prediction!r}")


def confirm(mine: Any, brokers: Any, version: str, did: str = "answered") -> None:
    """Prints whether a real broker of that version answered (or `did`) the same."""
    if mine == brokers:
        print(f"✓ a {version} broker {did} the same")
    else:
        print(f"✗ a {version} broker {did} {brokers!r}, this is {mine!r}")


def fetched(groups: Groups, names: Iterable[str], stable: bool = False) -> dict[str, Any]:
    """What a broker answers when the offsets of these groups are fetched: nothing for one that it does not know.

    `stable`: with requireStable, where a pending commit makes its partition unstable.
    """
    answers: dict[str, Any] = {}
    for name in names:
        group = groups.get(name)
        offsets = {} if group is None else group.offsets
        answers[name] = {
            str(partition): {"offset": there.offset, "leader_epoch": there.leader_epoch, "metadata": there.metadata}
            for partition, there in offsets.items()
        }
        for waiting in group.pending.values() if group is not None and stable else ():
            answers[name] |= {str(partition): "UNSTABLE_OFFSET_COMMIT" for partition in waiting}
    return answers


def record_bytes(path: str, offset: int) -> tuple[bytes | None, bytes | None]:
    """Key and value of the record at an offset of a partition. UsageError when it is not there."""
    for batch in open_log(path):
        for record in batch.records:
            if record.offset == offset:
                return record.key, record.value
    raise UsageError(f"{path} has no record at offset {offset}")


def hexdump(data: bytes, first: int = 0) -> None:
    """Prints bytes 16 a line: position (from `first` on), hex, and the characters where they are ASCII."""
    for start in range(0, len(data), 16):
        line = data[start : start + 16]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in line)
        print(f"{first + start:>6}  {line[:8].hex(' '):<23}  {line[8:].hex(' '):<23}  {text}")
