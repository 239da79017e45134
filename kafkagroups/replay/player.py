"""The player of a recorded conversation: requests and restarts on the recorded clock.

Before each request the timers that are due run. Everything that another part of the broker decides is taken from the
recording: transactional producers, the time of a marker, topics, and new member ids. The recording also decides when
the sweeps that delete expired offsets begin, because no request shows it.

Simpler than Kafka: if a connection is closed, only its responses are lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from kafkagroups.coordinator import (
    Clock,
    Errors,
    GroupCoordinator,
    TopicPartition,
    open_logs,
    read_settings,
    start_broker,
)
from kafkagroups.coordinator.settings import Settings
from kafkagroups.errors import UsageError
from kafkagroups.groups.group_offsets import NotAppended
from kafkagroups.replay.json_values import Json
from kafkagroups.replay.member_ids import RecordedMemberIds
from kafkagroups.replay.request import Request
from kafkagroups.replay.requests import HANDLERS, handle
from kafkagroups.replay.transactions import Transactions


class Player:
    """Plays a conversation. The coordinator's log is the folder `out`.

    Parameters
    ----------
    header, lines
        The conversation, as `read_conversation` returns it.
    out
        A new or empty folder.
    kafka
        The version whose rules apply. None: the recorded broker's version.
    """

    def __init__(self, header: Json, lines: list[Json], out: str | Path, kafka: str | None = None) -> None:
        self.settings = _read_header_settings(header, kafka or header["broker"])
        self.lines = lines
        self.start_ms: int = header["start_ms"]
        self.clock = Clock(self.start_ms)
        self.logs = open_logs(out, self.settings, on_append=self._note_append)
        self.topics: dict[str, int] = dict(header["topics"])
        self.zookeeper: dict[tuple[str, str, int], int] = {}
        self._member_ids = RecordedMemberIds(lines)
        self._request_appends: list[Json] | None = None
        self._append_reason = ""
        self._output: list[Json] = []
        self._sweep_times = [line["ms"] for line in lines if line.get("why") == "expiry"]
        self.coordinator = self._start_broker()
        self.transactions = Transactions(self.coordinator.manager.partition_for)

    def play(self) -> Iterator[Json]:
        """Yield what `replay` prints: each request with its response (null: not answered), and each other append."""
        for line in self.lines:
            if "api" in line:
                self._advance(line["ms"])
                self._play_request(line)
            elif line.get("event") == "restart":
                self._advance(line["ms"])
                self.clock.clear_timers()  # While the broker is down, no session times out.
                self.clock.advance_to(self.start_ms + line["up_ms"])
                self.coordinator = self._start_broker()
            elif line.get("event") == "append":
                self._advance(line["ms"] - 1)
                self._play_append(line)
        self._advance(max((line["ms"] for line in self.lines), default=0))
        self.logs.close()
        yield from self._output

    def _start_broker(self) -> GroupCoordinator:
        coordinator = start_broker(
            self.logs,
            self.clock,
            self.settings,
            new_member_id=self._member_ids.supply,
            topics=self.topics,
            verify=self._verify_transaction,
            zookeeper=self.zookeeper,
        )
        coordinator.start_expiration(self._find_first_sweep())
        return coordinator

    def _find_first_sweep(self) -> int:
        """Return after how many ms the sweeps of this start begin, from the recorded sweeps up to the next restart."""
        interval = self.settings.offsets_retention_check_interval_ms
        up_ms = self.clock.now_ms - self.start_ms
        restarts = [line["ms"] for line in self.lines if line.get("event") == "restart"]
        down_ms = min((ms for ms in restarts if ms > up_ms), default=None)
        sweeps = [ms - up_ms for ms in self._sweep_times if ms >= up_ms and (down_ms is None or ms < down_ms)]
        first = sweeps[0] if sweeps else 0
        # A recorded sweep may come a little late. The earliest one, as seen from the first, gives the phase.
        half = interval // 2
        earliest = min(((ms - first + half) % interval - half for ms in sweeps), default=0)
        return (first + earliest) % interval or interval

    def _verify_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partition: int
    ) -> Errors:
        manager = self.coordinator.manager
        groups = manager.open_groups.get(producer_id, ())
        if any(manager.partition_for(group) == partition for group in groups):
            return Errors.NONE  # The partition already contains the transaction, so Kafka does not ask.
        return self.transactions.verify(transactional_id, producer_id, producer_epoch, partition)

    def _advance(self, ms: int) -> None:
        self._request_appends = None
        self._append_reason = "time-out"
        self.clock.advance_to(self.start_ms + ms)

    def _play_request(self, line: Json) -> None:
        if line["api"] in HANDLERS:
            played: Json = {"n": line["n"], "api": line["api"], "response": None, "appended": []}
            self._output.append(played)
            self._request_appends = played["appended"]
            self._member_ids.prepare(line)
            request = Request(line["api"], line["api_version"], line["request"], line["client_id"])
            handle(self.coordinator, request, lambda response: played.update(response=response))
            self._request_appends = None
        elif line["response"] is not None:
            self._play_input(line["api"], line["request"], line["response"])

    def _play_input(self, api: str, request: Json, response: Json) -> None:
        """Take over what another part of the broker decided."""
        if api == "InitProducerId":
            self.transactions.init_producer_id(request, response)
        elif api == "AddOffsetsToTxn":
            self.transactions.add_offsets(request, response)
        elif api == "EndTxn":
            self.transactions.end(request, response)
        elif api == "CreateTopics":
            self._create_topics(request, response)
        elif api == "DeleteTopics":
            self._delete_topics(response)

    def _create_topics(self, request: Json, response: Json) -> None:
        created = {each["name"]: each for each in response["topics"] if not each["errorCode"]}
        for topic in request["topics"]:
            name = topic["name"]
            if name in created:
                # A request for -1 partitions leaves their number to the broker; the response contains it.
                self.topics[name] = max(topic["numPartitions"], created[name].get("numPartitions", 1))

    def _delete_topics(self, response: Json) -> None:
        deleted = {each["name"] for each in response["responses"] if not each["errorCode"]}
        partitions = [TopicPartition(topic, at) for topic in deleted for at in range(self.topics.pop(topic, 0))]
        self._request_appends = None
        self._append_reason = "topic deletion"
        self.coordinator.partitions_deleted(partitions)

    def _play_append(self, line: Json) -> None:
        """Append a transaction marker. Other recorded appends follow from the requests."""
        if "marker" not in line:
            return
        producer_id = line["producer_id"]
        commits = line["marker"] == "COMMIT"
        partitions = [each["partition"] for each in line["appended"]]
        self._request_appends = None
        self._append_reason = line["why"]
        for partition in partitions:
            self.logs.append_marker(
                partition,
                producer_id,
                line["producer_epoch"],
                commits=commits,
                timestamp=self.start_ms + line["ms"],
            )
        self.transactions.end_with_marker(producer_id)
        with suppress(NotAppended):  # A broker logs this error and leaves the groups unchanged.
            self.coordinator.transaction_completed(producer_id, partitions, commits=commits)

    def _note_append(self, partition: int, first: int, last: int) -> None:
        batch = {"partition": partition, "first": first, "last": last}
        if self._request_appends is not None:
            self._request_appends.append(batch)
        else:
            ms = self.clock.now_ms - self.start_ms
            self._output.append({"event": "append", "ms": ms, "why": self._append_reason, "appended": [batch]})


def _read_header_settings(header: Json, kafka: str) -> Settings:
    try:
        return replace(read_settings(kafka, header["config"]), offsets_topic_num_partitions=header["partitions"])
    except (ValueError, TypeError) as error:
        raise UsageError(f"the header's config: {error}") from None
