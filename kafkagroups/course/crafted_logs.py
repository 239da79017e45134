"""Lessons 08 and 11: logs made for a test, what two real brokers answered, and a partition that does not load."""

from __future__ import annotations

import shutil
from pathlib import Path

from kafkagroups.api import load
from kafkagroups.course.lesson_folders import find_data, make_scratch_folder
from kafkagroups.course.log_lines import Lines, read_lines
from kafkagroups.course.notebook_helpers import fetch_offsets, read_answers
from kafkagroups.course.small_logs import encode_commit, encode_records
from kafkagroups.log.folders import open_log
from kafkagroups.log.writer import LogWriter

_BROKERS = (("new", "4.3.1"), ("classic", "3.9.2"))


def read_crafted_lines(name: str) -> Lines:
    """Return one line for each record of a log in `data/crafted`, for example "b24", with one-letter group ids."""
    return Lines(
        line if line.group is None else line._replace(group=_shorten(name, line.group))
        for line in read_lines(find_data(f"crafted/{name}"))
    )


def print_crafted_log(name: str) -> None:
    """Print the records of a log in `data/crafted`, and what both coordinators answer about its first group.

    The last words of a line say whether a real broker answered the same.
    """
    print(*read_crafted_lines(name), sep="\n")
    recorded = read_answers("crafted")[name]
    group_id = recorded["groups"][0]
    for coordinator, version in _BROKERS:
        groups = load(find_data(f"crafted/{name}"), coordinator)
        state = groups[group_id].state.value if group_id in groups else "Dead"
        offsets = fetch_offsets(groups, [group_id])[group_id]
        broker = recorded[coordinator]
        is_same = (state, offsets) == (broker["groups"][group_id]["state"], broker["offsets"][group_id])
        answer = _describe_group(_shorten(name, group_id), state, offsets)
        verdict = f"✓ a {version} broker answered the same" if is_same else f"✗ a {version} broker answered differently"
        print(f"  {coordinator + ' coordinator:':<20} {answer:<24} {verdict}")


def _shorten(name: str, group_id: str) -> str:
    """Return the letter of a group id. The group ids of the log "b24" begin with "b24.g.", "b24.h." and so on."""
    return group_id.removeprefix(f"{name}.").partition(".")[0]


def _describe_group(letter: str, state: str, offsets: dict[str, dict[str, int]]) -> str:
    if state == "Dead":
        return f"no group {letter}"
    values = ", ".join(f"{partition} = {offset['offset']}" for partition, offset in sorted(offsets.items()))
    return f"{letter}: {values or 'no offsets'}"


_PARTITION = "__consumer_offsets-9"


def copy_failing_partition() -> Path:
    """Return a new folder with a partition that does not load: `copy/__consumer_offsets-9`.

    To the log of the shop's broker (Kafka 4.3.1), two records are added:

    - 45: a record with the key of an offset of `fraud-check` and a value of zero bytes
    - 46: a commit of `billing` for orders-0
    """
    folder = make_scratch_folder()
    copy = folder / "copy" / _PARTITION
    copy.mkdir(parents=True)
    for segment in Path(find_data(f"harbour/4.3.1/{_PARTITION}")).glob("*.log"):
        shutil.copy(segment, copy)
    *_, last_batch = open_log(copy)
    key, _ = encode_commit("fraud-check", None, "payments")
    with LogWriter(copy) as log:
        for seconds, record in enumerate([(key, b""), encode_commit("billing", 60, "orders")], 1):
            log.append(encode_records(log.next_offset, last_batch.max_timestamp + seconds * 1000, [record]))
    return folder
