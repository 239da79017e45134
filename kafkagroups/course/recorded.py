"""A recorded conversation, played against this package's coordinator and compared.

The lists in responses are sorted before they are compared, because their order is that of a hash map.
"""

from __future__ import annotations

import json
import lzma
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkagroups.coordinator import Errors
from kafkagroups.course.folders import find_data, make_scratch_folder
from kafkagroups.course.log_lines import read_lines
from kafkagroups.replay.conversation import read_conversation
from kafkagroups.replay.json_values import Json
from kafkagroups.replay.player import Player


@dataclass(frozen=True)
class PlayedConversation:
    """A conversation with the broker's answers and ours.

    Attributes
    ----------
    broker
        The version of the real broker.
    lines
        The recorded lines.
    our_responses, broker_responses
        By request number: the response with sorted lists, and the appends.
    our_appends, broker_appends
        The appends that no request caused, as text.
    log
        The folder of our coordinator's log.
    """

    broker: str
    lines: list[Json]
    our_responses: dict[int, Any]
    broker_responses: dict[int, Any]
    our_appends: list[str]
    broker_appends: list[str]
    log: Path

    def __str__(self) -> str:
        apis = Counter(line["api"] for line in self.lines if line.get("n") in self.our_responses)
        counts = ", ".join(f"{count} {api}" for api, count in apis.most_common())
        return f"{sum(apis.values())} requests: {counts}"

    def read_offsets(self, number: int) -> dict[str, int]:
        """Return the offsets in the real broker's response to an OffsetFetch, of all its groups, by partition."""
        response, _ = self.broker_responses[number]
        return {
            f"{topic['name']}-{partition['partitionIndex']}": partition["committedOffset"]
            for group in response.get("groups", [response])
            for topic in group["topics"]
            for partition in topic["partitions"]
        }

    def print_expired(self) -> None:
        """Print what sweeps deleted: when, of which group, and whether the group was deleted with its last offset."""
        for line in self.lines:
            if line.get("why") != "expiry":
                continue
            for append in line["appended"]:
                deleted = self._describe_deleted(append)
                print(f"  {line['ms'] / 1000:5.1f} s  {line['group']}: {deleted}")

    def print_requests(self, first: int, last: int) -> None:
        """Print the requests with these numbers, the real broker's responses, and its appends between them."""
        is_inside = False
        for line in self.lines:
            if "n" in line:
                is_inside = first <= line["n"] <= last
            if is_inside and "n" in line:
                print(_format_request(line))
            elif is_inside and line.get("event") == "append":
                cause = f"{line['why']} of {line.get('group', 'a producer')}"
                print(f"{line['ms']:>7} ms  {'':>4}{cause}{_format_appends(line)}")

    def _describe_deleted(self, append: Json) -> str:
        log = read_lines(self.log / f"__consumer_offsets-{append['partition']}")
        kinds = [record.about for record in log if append["first"] <= record.at <= append["last"]]
        offset_count = kinds.count("offset")
        parts = []
        if offset_count:
            parts.append("1 offset" if offset_count == 1 else f"{offset_count} offsets")
        if "group" in kinds:
            parts.append("the group")
        return " + ".join(parts)


def play_conversation(name: str) -> PlayedConversation:
    """Play a recorded conversation against a coordinator of the recorded broker's version.

    Parameters
    ----------
    name
        The name of a file in data/conversations, for example "3.9.2-rebalance".

    Raises
    ------
    UsageError
        If there is no such file.
    """
    folder = make_scratch_folder()
    plain = folder / "conversation.jsonl"
    plain.write_bytes(lzma.decompress(Path(find_data(f"conversations/{name}.jsonl.xz")).read_bytes()))
    header, lines = read_conversation(plain)
    our_responses = {}
    our_appends = []
    for line in Player(header, lines, folder / "log").play():
        if "n" in line:
            our_responses[line["n"]] = (_sort_lists(line["response"]), line["appended"])
        else:
            our_appends += [str(append) for append in line["appended"]]
    broker_responses = {
        line["n"]: (_sort_lists(line["response"]), line["appended"]) for line in lines if line.get("n") in our_responses
    }
    broker_appends = [str(append) for line in lines if line.get("event") == "append" for append in line["appended"]]
    return PlayedConversation(
        header["broker"],
        lines,
        our_responses,
        broker_responses,
        sorted(our_appends),
        sorted(broker_appends),
        folder / "log",
    )


def _sort_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sort_lists(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return sorted((_sort_lists(inner) for inner in value), key=json.dumps)
    return value


def _format_request(line: Json) -> str:
    waited_ms = (line["response_ms"] or line["ms"]) - line["ms"]
    errors = [Errors(code).name for code in dict.fromkeys(_find_error_codes(line["response"]))]
    delay = f", after {waited_ms} ms" if waited_ms > 200 else ""
    request = f"{line['ms']:>7} ms  {line['n']:>3} {line['client_id']:<10}{line['api']:<15}"
    return f"{request} → {', '.join(errors)}{delay}{_format_appends(line)}"


def _find_error_codes(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        if "errorCode" in value:
            yield value["errorCode"]
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from _find_error_codes(inner)


def _format_appends(line: Json) -> str:
    appends = []
    for append in line["appended"]:
        last = f"–{append['last']}" if append["last"] > append["first"] else ""
        appends.append(f"{append['partition']}/{append['first']}{last}")
    return f"   written: {', '.join(appends)}" if appends else ""
