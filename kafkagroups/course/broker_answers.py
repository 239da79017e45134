"""What real brokers answered about the logs in `data/` and in recorded conversations, and what this package answers.

Lists in the responses of a conversation are sorted before a comparison, because a broker takes the order of these lists
from a hash map.
"""

from __future__ import annotations

import json
import lzma
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkagroups.coordinator.conversation import read_conversation
from kafkagroups.coordinator.messages import FetchedOffset, OffsetFetchResult
from kafkagroups.coordinator.player import Player
from kafkagroups.coordinator.recorded_requests import Json
from kafkagroups.course.group_life import format_count
from kafkagroups.course.lesson_folders import find_data, make_scratch_folder
from kafkagroups.course.log_lines import Lines, read_lines
from kafkagroups.groups.offsets import OffsetAndMetadata
from kafkagroups.loading.groups import Groups


def compare_with_broker(our_result: Any, broker_result: Any, version: str, verb: str = "answered") -> None:
    """Print whether a real broker of this version had the same result as this package."""
    if our_result == broker_result:
        print(f"✓ a {version} broker {verb} the same")
    else:
        print(f"✗ a {version} broker {verb} {broker_result!r}; our result is {our_result!r}")


def fetch_offsets(groups: Groups, names: Iterable[str], require_stable: bool = False) -> dict[str, Any]:
    """Return what a broker with these loaded groups would return for OffsetFetch requests, by group id and "orders-0".

    An answer is a dict of offset, leader epoch and metadata, or the name of an error. If `require_stable` is true, it
    is UNSTABLE_OFFSET_COMMIT for a partition with a pending commit.
    """
    answers: dict[str, Any] = {}
    for name in names:
        group = groups.get(name)
        offsets = {} if group is None else group.offsets
        answers[name] = {str(partition): _format_offset(committed) for partition, committed in offsets.items()}
        if group is not None and require_stable:
            for pending_offsets in group.pending.values():
                answers[name] |= {str(partition): "UNSTABLE_OFFSET_COMMIT" for partition in pending_offsets}
    return answers


def format_offsets(result: OffsetFetchResult) -> dict[str, Any]:
    """Return fetched offsets as in the JSON files in data/harbour.

    By partition, such as "orders-0", it is a dict with the offset, the leader epoch and the metadata, or the name of an
    error.
    """
    return {
        str(partition): fetched.error.name if fetched.error else _format_offset(fetched)
        for partition, fetched in result.offsets.items()
    }


def _format_offset(offset: FetchedOffset | OffsetAndMetadata) -> dict[str, Any]:
    return {"offset": offset.offset, "leader_epoch": offset.leader_epoch, "metadata": offset.metadata}


def read_answers(log: str, file: str = "answers.json") -> dict[str, Any]:
    """Return what a real broker answered after it had loaded a log below `data`, for example "harbour/4.3.1".

    The file "before.json" has the answers that clients got before the crash. `offsets` has for each group the
    partitions ("orders-0"), each with offset, leader epoch and metadata, and `stable` the same, asked with
    requireStable. `groups` has the descriptions of the groups, and `listed` the answer to ListGroups.
    """
    answers: dict[str, Any] = json.loads(Path(find_data(f"{log}/{file}")).read_text(encoding="utf-8"))
    return answers


def read_crafted_lines(name: str) -> Lines:
    """The group ids of the log "b24" begin with "b24.g.", "b24.h." and so on. Only the letter is returned."""
    lines = read_lines(find_data(f"crafted/{name}"))
    return Lines(
        line._replace(group=line.group and line.group.removeprefix(f"{name}.").partition(".")[0]) for line in lines
    )


def read_compressed(name: str) -> tuple[Json, list[Json]]:
    recording = make_scratch_folder() / "conversation.jsonl"
    recording.write_bytes(lzma.decompress(Path(find_data(name)).read_bytes()))
    return read_conversation(recording)


@dataclass(frozen=True)
class PlayedConversation:
    """A recorded conversation with the responses of a real broker of `broker_version` and of our coordinator.

    A line is a request, or an event that no request caused, for example the end of a timer, as JSON.

    A response, with sorted lists, stands with the batches that its request appended, by the request's number. Appends
    are batches without a request, for example at the end of a timer.
    """

    broker_version: str
    lines: list[Json]
    our_responses: dict[int, Any]
    broker_responses: dict[int, Any]
    our_appends: list[str]
    broker_appends: list[str]
    log_folder: Path

    def __str__(self) -> str:
        apis = Counter(line["api"] for line in self.lines if line.get("n") in self.our_responses)
        counts = ", ".join(f"{count} {api}" for api, count in apis.most_common())
        return f"{sum(apis.values())} requests: {counts}"

    def print_expired(self, *groups: str) -> None:
        for line in self.lines:
            if line.get("why") != "expiry" or (groups and line["group"] not in groups):
                continue
            for append in line["appended"]:
                print(f"  {line['ms'] / 1000:5.1f} s  {line['group']}: {self._describe_deletion(append)}")

    def _describe_deletion(self, append: Json) -> str:
        """The recording contains no records, so they are read from our coordinator's log."""
        log = read_lines(self.log_folder / f"__consumer_offsets-{append['partition']}")
        deleted = [line.record_type for line in log if append["first"] <= line.record_offset <= append["last"]]
        offsets = format_count(deleted.count("offset"), "offset") if "offset" in deleted else ""
        return " + ".join(filter(None, (offsets, "the group" if "group" in deleted else "")))


def play_conversation(name: str) -> PlayedConversation:
    """Send the requests of a recorded conversation to our coordinator, which uses the rules of the broker's version.

    `name` is a file in data/conversations without ".jsonl.xz", for example "3.9.2-rebalance". Raises UsageError if it
    does not exist.
    """
    folder = make_scratch_folder()
    header, lines = read_compressed(f"conversations/{name}.jsonl.xz")
    ours = list(Player(header, lines, folder / "log").play())
    our_responses = _read_responses(ours)
    broker_responses = _read_responses([line for line in lines if line.get("n") in our_responses])
    our_appends = [str(append) for line in ours if "n" not in line for append in line["appended"]]
    broker_appends = [str(append) for line in lines if line.get("event") == "append" for append in line["appended"]]
    return PlayedConversation(
        broker_version=header["broker"],
        lines=lines,
        our_responses=our_responses,
        broker_responses=broker_responses,
        our_appends=sorted(our_appends),
        broker_appends=sorted(broker_appends),
        log_folder=folder / "log",
    )


def _read_responses(lines: Iterable[Json]) -> dict[int, Any]:
    return {line["n"]: (_sort_lists(line["response"]), line["appended"]) for line in lines if "n" in line}


def _sort_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sort_lists(element) for key, element in value.items()}
    if isinstance(value, list):
        return sorted((_sort_lists(element) for element in value), key=json.dumps)
    return value
