"""A recorded conversation between clients and a real coordinator, played against ours.

Each line of the file is a request with what the broker answered and appended, or an event. Requests and restarts are
played in order, on the recorded clock: before each, the timers that are due run. What only other parts of a broker
decide is taken from the record: transactional producers, the moment of a marker, topics, new member ids; and of
the sweeps that delete expired offsets their phase, which no request tells.

Simpler than Kafka: a closed connection loses its answers, and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from kafkagroups.coordinator import Clock, DiskLogs, Errors, GroupCoordinator, TopicPartition
from kafkagroups.errors import UsageError
from kafkagroups.groups.group_offsets import NotAppended
from kafkagroups.replay.config import settings
from kafkagroups.replay.requests import SINCE, handle
from kafkagroups.replay.shapes import HEADER, check, check_line
from kafkagroups.replay.transactions import Transactions

Json = dict[str, Any]


def read(path: str | Path) -> tuple[Json, list[Json]]:
    """The header and the lines of a conversation. UsageError, with line and field, when the file is none."""
    lines: list[Json] = []
    try:
        with open(path, encoding="utf-8") as file:
            for text in file:
                line = json.loads(text)
                check_line(line) if lines else check(line, HEADER)
                lines.append(line)
        if not lines:
            raise ValueError
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        reason = "a conversation was expected, a JSON object a line, the first its header"
        raise UsageError(f"{path}, line {len(lines) + 1}: {reason}") from None
    except UsageError as error:
        raise UsageError(f"{path}, line {len(lines) + 1}: {error}") from None
    header, *rest = lines
    return header, rest


class Player:
    """Plays a conversation; its coordinator's log is the folder `out`."""

    def __init__(self, header: Json, lines: list[Json], out: str | Path, kafka: str | None = None) -> None:
        kafka = kafka or header["broker"]
        try:
            self.settings = settings(kafka, {**header["config"], "offsets.topic.num.partitions": header["partitions"]})
        except (ValueError, TypeError) as error:
            raise UsageError(f"the header's config: {error}") from None
        self.lines = lines
        self.start_ms: int = header["start_ms"]
        self.clock = Clock(self.start_ms)
        fences = self.settings.since(2, 5)  # 1.0.1 takes any producer epoch
        self.logs = DiskLogs(
            out, self.settings.offsets_topic_compression_codec, fences=fences, on_append=self._appended
        )
        self.topics: dict[str, int] = dict(header["topics"])
        self.transactions: Transactions
        self.zookeeper: dict[tuple[str, str, int], int] = {}
        self._ids = _MemberIds(lines)
        self._into: list[Json] | None = None
        self._why = ""
        self._printed: list[Json] = []
        self._sweeps = [line["ms"] for line in lines if line.get("why") == "expiry"]
        self._start()
        self.transactions = Transactions(self.coordinator.manager.partition_for)

    def play(self) -> Iterator[Json]:
        """Every line that `replay` prints: a request with its response (null: not answered), or an append."""
        for line in self.lines:
            if "api" in line:
                self._advance(line["ms"])
                self._request(line)
            elif line.get("event") == "restart":
                self._advance(line["ms"])
                self.clock.forget()  # a broker that is down expires nobody
                self.clock.advance_to(self.start_ms + line["up_ms"])
                self._start()
            elif line.get("event") == "append":
                self._advance(line["ms"] - 1)
                self._append(line)
        self._advance(max((line["ms"] for line in self.lines), default=0))
        self.logs.close()
        yield from self._printed

    def _start(self) -> None:
        """A broker starts: it loads every partition of its log."""
        self.coordinator = GroupCoordinator(
            self.logs,
            self.clock,
            self.settings,
            new_member_id=self._ids.supply,
            topics=self.topics,
            verify=self._verify,
        )
        self.coordinator.zookeeper = self.zookeeper
        for partition in range(self.settings.offsets_topic_num_partitions):
            self.coordinator.elect(partition)
        interval = self.settings.offsets_retention_check_interval_ms
        up_ms = self.clock.now_ms - self.start_ms
        down_ms = min((line["ms"] for line in self.lines if line.get("event") == "restart" and line["ms"] > up_ms),
                      default=None)  # fmt: skip
        sweeps = [ms - up_ms for ms in self._sweeps if ms >= up_ms and (down_ms is None or ms < down_ms)]
        first = sweeps[0] if sweeps else 0  # the others may come around it a little earlier
        early = min(((ms - first + interval // 2) % interval - interval // 2 for ms in sweeps), default=0)
        self.coordinator.start_sweeps((first + early) % interval or interval)

    def _verify(self, transactional_id: str, producer_id: int, producer_epoch: int, partition: int) -> Errors:
        manager = self.coordinator.manager
        if any(manager.partition_for(each) == partition for each in manager.open_groups.get(producer_id, ())):
            return Errors.NONE  # the partition knows the transaction, its coordinator is not asked
        return self.transactions.verify(transactional_id, producer_id, producer_epoch, partition)

    def _advance(self, ms: int) -> None:
        self._into, self._why = None, "time-out"
        self.clock.advance_to(self.start_ms + ms)

    def _request(self, line: Json) -> None:
        api, request, response = line["api"], line["request"], line["response"]
        if api in SINCE:
            played: Json = {"n": line["n"], "api": api, "response": None, "appended": []}
            self._printed.append(played)
            self._into = played["appended"]
            self._ids.expect(line)
            handle(
                self.coordinator, api, line["api_version"], request, line["client_id"], "/127.0.0.1",
                lambda answer: played.update(response=answer),
            )  # fmt: skip
            self._into = None
        elif response is not None:
            self._input(line["n"], api, request, response)

    def _input(self, n: int, api: str, request: Json, response: Json) -> None:
        """What another part of the broker decided."""
        if api == "InitProducerId":
            self.transactions.init_producer_id(request, response)
        elif api == "AddOffsetsToTxn":
            self.transactions.add_offsets(request, response)
        elif api == "EndTxn":
            self.transactions.end(request, response)
        elif api == "CreateTopics":
            made = {each["name"] for each in response["topics"] if not each["errorCode"]}
            told = {each["name"]: each.get("numPartitions", 1) for each in response["topics"]}
            for each in request["topics"]:
                if each["name"] in made:  # asked for -1: as many as the broker likes
                    self.topics[each["name"]] = max(each["numPartitions"], told[each["name"]])
        elif api == "DeleteTopics":
            gone = {each["name"] for each in response["responses"] if not each["errorCode"]}
            partitions = [TopicPartition(topic, at) for topic in gone for at in range(self.topics.pop(topic, 0))]
            self._into, self._why = None, "topic deletion"
            self.coordinator.partitions_deleted(partitions)

    def _append(self, line: Json) -> None:
        """A marker arrives; other appends follow from what was played."""
        if "marker" not in line:
            return
        commits = line["marker"] == "COMMIT"
        self._into, self._why = None, line["why"]
        for each in line["appended"]:
            self.logs.append_marker(
                each["partition"], line["producer_id"], line["producer_epoch"],
                commits=commits, timestamp=self.start_ms + line["ms"],
            )  # fmt: skip
        self.transactions.marked(line["producer_id"])
        partitions = [each["partition"] for each in line["appended"]]
        with suppress(NotAppended):  # the broker logs it, and the groups are left as they are
            self.coordinator.transaction_completed(line["producer_id"], partitions, commits=commits)

    def _appended(self, partition: int, first: int, last: int) -> None:
        batch = {"partition": partition, "first": first, "last": last}
        if self._into is not None:
            self._into.append(batch)
        else:
            ms = self.clock.now_ms - self.start_ms
            self._printed.append({"event": "append", "ms": ms, "why": self._why, "appended": [batch]})


class _MemberIds:
    """The recorded member ids, for new members in the order of the record."""

    def __init__(self, lines: list[Json]) -> None:
        responses = [line["response"] for line in lines if line.get("api") == "JoinGroup" and line["response"]]
        self._answered = {response["memberId"] for response in responses}
        text = json.dumps(lines, ensure_ascii=False)
        self._seen = dict.fromkeys(re.findall(r'"([^"]*-[0-9a-f]{8}-[0-9a-f-]{27})"', text))
        self._next = ""
        self._made = 0

    def expect(self, line: Json) -> None:
        """The request that may need an id comes now: its answer, if it has one, says which."""
        self._next = line["response"]["memberId"] if line["api"] == "JoinGroup" and line["response"] else ""

    def supply(self, prefix: str) -> str:
        """A new member's id: its answer's, else one that begins like it and is nobody else's answer, else a new one."""
        if not self._next:
            others = (each for each in self._seen if each.startswith(f"{prefix}-") and each not in self._answered)
            self._next = next(others, f"{prefix}-{self._made:08x}-0000-4000-8000-000000000000")
            self._made += 1
        self._answered.add(self._next)
        return self._next
