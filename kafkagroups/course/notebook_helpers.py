"""Printing in a lesson: predictions, a broker's answers, hexdumps, server log lines."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from kafkagroups.errors import UsageError
from kafkagroups.loading.groups import Groups
from kafkagroups.log.segments import open_log


class _PrintHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print(f"    {record.levelname} {record.getMessage()}")


@contextmanager
def print_server_log() -> Iterator[None]:
    """Print what a coordinator writes to its server's log while the `with` block runs."""
    log = logging.getLogger("kafkagroups.coordinator")
    handler = _PrintHandler()
    earlier_level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(earlier_level)


def compare(prediction: Any, answer: Any) -> None:
    """Print the answer next to the learner's prediction.

    Parameters
    ----------
    prediction
        What the learner typed. `...` means that there is no prediction yet.
    answer
        What is true.
    """
    if prediction is ...:
        print(f"it is {answer!r}; you made no prediction")
    elif prediction == answer:
        print(f"it is {answer!r}, as you predicted")
    else:
        print(f"it is {answer!r}; you predicted {prediction!r}")


def confirm(ours: Any, brokers: Any, version: str, did: str = "answered") -> None:
    """Print whether a real broker gave the same result.

    Parameters
    ----------
    ours
        The result that this lesson computed.
    brokers
        The result that was recorded from the broker.
    version
        The broker's Kafka version.
    did
        The verb of the printed sentence: "answered", "stored" or "wrote".
    """
    if ours == brokers:
        print(f"✓ a {version} broker {did} the same")
    else:
        print(f"✗ a {version} broker {did} {brokers!r}, this is {ours!r}")


def fetch_offsets(groups: Groups, names: Iterable[str], stable: bool = False) -> dict[str, Any]:
    """Return what a broker would answer if the offsets of these groups were fetched.

    Parameters
    ----------
    groups
        Loaded groups.
    names
        The groups to fetch. A group that is not loaded has an empty answer.
    stable
        Fetch with requireStable: the answer for a partition with a pending commit is UNSTABLE_OFFSET_COMMIT.

    Returns
    -------
    dict
        For each group, its partitions ("orders-0") with offset, leader epoch and metadata, or with an error's name.
    """
    answers: dict[str, Any] = {}
    for name in names:
        group = groups.get(name)
        offsets = {} if group is None else group.offsets
        answers[name] = {
            str(partition): {
                "offset": committed.offset,
                "leader_epoch": committed.leader_epoch,
                "metadata": committed.metadata,
            }
            for partition, committed in offsets.items()
        }
        if group is not None and stable:
            for pending in group.pending.values():
                answers[name] |= {str(partition): "UNSTABLE_OFFSET_COMMIT" for partition in pending}
    return answers


def read_record(path: str, offset: int) -> tuple[bytes | None, bytes | None]:
    """Return the key and the value of one record as bytes.

    Parameters
    ----------
    path
        A partition folder or one `.log` file.
    offset
        The record's offset in the log.

    Raises
    ------
    UsageError
        If the log has no record at this offset.
    """
    for batch in open_log(path):
        for record in batch.records:
            if record.offset == offset:
                return record.key, record.value
    raise UsageError(f"{path} has no record at offset {offset}")


def hexdump(data: bytes, first: int = 0) -> None:
    """Print bytes, 16 per line: position, hex, and the ASCII characters.

    Parameters
    ----------
    data
        The bytes.
    first
        The position that is printed for the first byte.
    """
    for start in range(0, len(data), 16):
        line = data[start : start + 16]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in line)
        print(f"{first + start:>6}  {line[:8].hex(' '):<23}  {line[8:].hex(' '):<23}  {text}")
