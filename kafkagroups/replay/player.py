"""The replay of a recorded conversation: its requests and restarts, at their recorded times.

Timers that are due run before the next request. The decisions of other parts of the broker come from the recording:
the ids of transactional producers, the time of each transaction marker, the topics, and the ids of new members. The
time at which the broker deleted expired offsets is in no request, so the replay reads it from the recorded appends.

Simpler than Kafka: if a client closes its connection, only the responses to this client are lost.
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
    """The replay of one conversation against our coordinator, which writes its log into the folder `out`.

    Parameters
    ----------
    header, lines
        The conversation, as `read_conversation` returns it. The times in its lines (`ms`, `up_ms`) are in ms since the
        start of the conversation.
    out
        A new or empty folder.
    kafka
        The Kafka version whose rules the coordinator follows. None: the version of the recorded broker.
    """

    def __init__(self, header: Json, lines: list[Json], out: str | Path, kafka: str | None = None) -> None:
        self.settings = _read_header_settings(header, kafka or header["broker"])
        self.lines = lines
        self.start_ms: int = header["start_ms"]
        self.clock = Clock(self.start_ms)
        self.logs = open_logs(out, self.settings, on_append=self._output_append)
        self.topics: dict[str, int] = dict(header["topics"])
        self.zookeeper: dict[tuple[str, str, int], int] = {}
        self._member_ids = RecordedMemberIds(lines)
        # The appends of the request that is replayed now. None while no request is replayed.
        self._request_appends: list[Json] | None = None
        self._append_reason = ""
        self._output: list[Json] = []
        self._expiration_times = [line["ms"] for line in lines if line.get("why") == "expiry"]
        self.coordinator = self._start_broker()
        self.transactions = Transactions(self.coordinator.manager.partition_for)

    def play(self) -> Iterator[Json]:
        """Replay the conversation. Yield a JSON line for each request, and for each append that no request caused.

        The command `replay` prints these lines. If our coordinator did not answer a request, its response is null.
        """
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
        coordinator.start_expiration(self._find_first_expiration())
        return coordinator

    def _find_first_expiration(self) -> int:
        """Return how many ms after this start of the broker it deletes expired offsets for the first time.

        This delay is computed from the recorded expirations (deletions of expired offsets) between this start and the
        next restart.
        """
        interval = self.settings.offsets_retention_check_interval_ms
        up_ms = self.clock.now_ms - self.start_ms
        restarts = [line["ms"] for line in self.lines if line.get("event") == "restart"]
        down_ms = min((ms for ms in restarts if ms > up_ms), default=None)
        delays = [ms - up_ms for ms in self._expiration_times if ms >= up_ms and (down_ms is None or ms < down_ms)]
        first_delay = delays[0] if delays else 0
        # A broker schedules its expirations one interval apart, but a recorded expiration may be some ms late. `shifts`
        # says how many ms each expiration is later than a schedule that begins with the first one (below 0: earlier).
        # The expiration with the smallest shift had the smallest delay, so it is nearest to the broker's schedule.
        half = interval // 2
        shifts = ((delay - first_delay + half) % interval - half for delay in delays)
        return (first_delay + min(shifts, default=0)) % interval or interval

    def _verify_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partition: int
    ) -> Errors:
        manager = self.coordinator.manager
        groups = manager.open_groups.get(producer_id, ())
        if any(manager.partition_for(group) == partition for group in groups):
            # The log already contains this transaction, so Kafka does not ask the transaction coordinator.
            return Errors.NONE
        return self.transactions.verify(transactional_id, producer_id, producer_epoch, partition)

    def _advance(self, ms: int) -> None:
        self._request_appends = None
        self._append_reason = "time-out"
        self.clock.advance_to(self.start_ms + ms)

    def _play_request(self, line: Json) -> None:
        if line["api"] in HANDLERS:
            output: Json = {"n": line["n"], "api": line["api"], "response": None, "appended": []}
            self._output.append(output)
            self._request_appends = output["appended"]
            self._member_ids.prepare(line)
            request = Request(line["api"], line["api_version"], line["request"], line["client_id"])
            handle(self.coordinator, request, lambda response: output.update(response=response))
            self._request_appends = None
        elif line["response"] is not None:
            self._apply_decision(line["api"], line["request"], line["response"])

    def _apply_decision(self, api: str, request: Json, response: Json) -> None:
        """Handle a request to another part of the broker. The recorded response contains that part's decision."""
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
        created = {topic["name"]: topic for topic in response["topics"] if not topic["errorCode"]}
        for topic in request["topics"]:
            name = topic["name"]
            if name in created:
                # If the request contains -1, the broker chooses the partition count, and the response contains it.
                self.topics[name] = max(topic["numPartitions"], created[name].get("numPartitions", 1))

    def _delete_topics(self, response: Json) -> None:
        deleted_topics = {topic["name"] for topic in response["responses"] if not topic["errorCode"]}
        partitions = [
            TopicPartition(topic, partition)
            for topic in deleted_topics
            for partition in range(self.topics.pop(topic, 0))
        ]
        self._request_appends = None
        self._append_reason = "topic deletion"
        self.coordinator.partitions_deleted(partitions)

    def _play_append(self, line: Json) -> None:
        """If a recorded append is a transaction marker, append it. Our coordinator makes all other appends itself."""
        if "marker" not in line:
            return
        producer_id = line["producer_id"]
        commits = line["marker"] == "COMMIT"
        partitions = [batch["partition"] for batch in line["appended"]]
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

    def _output_append(self, partition: int, first_offset: int, last_offset: int) -> None:
        batch = {"partition": partition, "first": first_offset, "last": last_offset}
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
