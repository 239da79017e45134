"""A recorded conversation between clients and a real broker, played against this package's coordinator, and compared.

Not compared is what no request tells: the order inside lists, which is that of a hash map.
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
from kafkagroups.replay.conversation import Json, Player, read


@dataclass(frozen=True)
class Played:
    """`lines` are the recorded ones; `mine` and `brokers`: every answer by its request's number; `my_appends` and
    `broker_appends`: what was written without a request, as offsets of partitions; `log` is where ours was written."""

    broker: str
    lines: list[Json]
    mine: dict[int, Any]
    brokers: dict[int, Any]
    my_appends: list[str]
    broker_appends: list[str]
    log: Path

    def __str__(self) -> str:
        asked = Counter(line["api"] for line in self.lines if line.get("n") in self.mine)
        return f"{sum(asked.values())} requests: " + ", ".join(f"{many} {api}" for api, many in asked.most_common())

    def offsets(self, n: int) -> dict[str, int]:
        """What the real broker answered to OffsetFetch number `n`: offsets by partition, of all its groups."""
        groups = self.brokers[n][0].get("groups", [self.brokers[n][0]])
        return {
            f"{topic['name']}-{each['partitionIndex']}": each["committedOffset"]
            for group in groups
            for topic in group["topics"]
            for each in topic["partitions"]
        }

    def tell_expired(self) -> None:
        """Prints what sweeps deleted: when, of which group, and whether the group went with its last offset."""
        for line in self.lines:
            for each in line["appended"] if line.get("why") == "expiry" else ():
                log = read_lines(self.log / f"__consumer_offsets-{each['partition']}")
                gone = [record.about for record in log if each["first"] <= record.at <= each["last"]]
                offsets = gone.count("offset")
                what = [f"{offsets} offset{'s' * (offsets > 1)}"] * (offsets > 0) + ["the group"] * ("group" in gone)
                print(f"  {line['ms'] / 1000:5.1f} s  {line['group']}: {' + '.join(what)}")

    def tell(self, first: int, last: int) -> None:
        """Prints requests by their numbers with what the real broker answered, and what it did unasked in between."""
        inside = False
        for line in self.lines:
            if "n" in line:
                inside = first <= line["n"] <= last
            if inside and "n" in line:
                print(_request(line))
            elif inside and line.get("event") == "append":
                print(f"{line['ms']:>7} ms  {'':>4}{line['why']} of {line.get('group', 'a producer')}{_wrote(line)}")


def play(name: str) -> Played:
    """Plays `data/conversations/NAME.jsonl.xz` on a coordinator of its broker's version. UsageError: not there."""
    folder = make_scratch_folder()
    plain = folder / "conversation.jsonl"
    plain.write_bytes(lzma.decompress(Path(find_data(f"conversations/{name}.jsonl.xz")).read_bytes()))
    header, lines = read(plain)
    answers, mine, my_appends = {}, {}, []
    for line in Player(header, lines, folder / "log").play():
        if "n" in line:
            mine[line["n"]] = (_in_order(line["response"]), line["appended"])
        else:
            my_appends += [str(each) for each in line["appended"]]
    for line in lines:
        if line.get("n") in mine:
            answers[line["n"]] = (_in_order(line["response"]), line["appended"])
    unasked = [str(each) for line in lines if line.get("event") == "append" for each in line["appended"]]
    return Played(header["broker"], lines, mine, answers, sorted(my_appends), sorted(unasked), folder / "log")


def _in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _in_order(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((_in_order(each) for each in value), key=json.dumps)
    return value


def _request(line: Json) -> str:
    waited = (line["response_ms"] or line["ms"]) - line["ms"]
    errors = [Errors(code).name for code in dict.fromkeys(_errors(line["response"]))]
    after = f", after {waited} ms" if waited > 200 else ""
    asked = f"{line['ms']:>7} ms  {line['n']:>3} {line['client_id']:<10}{line['api']:<15}"
    return f"{asked} → {', '.join(errors)}{after}{_wrote(line)}"


def _errors(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        if "errorCode" in value:
            yield value["errorCode"]
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        yield from _errors(each)


def _wrote(line: Json) -> str:
    offsets = [f"{each['partition']}/{each['first']}" + (f"–{each['last']}" if each["last"] > each["first"] else "")
               for each in line["appended"]]  # fmt: skip
    return f"   written: {', '.join(offsets)}" if offsets else ""
