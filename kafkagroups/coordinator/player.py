"""The replay of a recorded conversation: its requests and restarts, at their recorded times.

Timers that are due run before the next request. The recording decides what a request does not contain: the ids of new
members, of topics and of transactional producers, the topics, the time of each transaction marker, when the broker
deleted expired offsets, and the batches of groups that the coordinator only loads.

Simpler than Kafka: if a client closes its connection, a broker cannot send the remaining responses. The output of the
replay contains them, because the replay has no connections.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from kafkagroups.coordinator import conversation
from kafkagroups.coordinator.clock import Clock
from kafkagroups.coordinator.coordinator import GroupCoordinator, open_logs, start_broker
from kafkagroups.coordinator.messages import Errors
from kafkagroups.coordinator.partitioned_groups import PartitionedGroups
from kafkagroups.coordinator.recorded_requests import HANDLERS, GroupsBody, Json, Request, handle
from kafkagroups.coordinator.settings import Settings, read_settings
from kafkagroups.errors import UsageError
from kafkagroups.groups.living_groups import NotAppended
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.log.segment_file import partition_for

FIRST_THAT_ADDS_TO_TRANSACTION = 5
"""The first version of TxnOffsetCommit that adds the partition to the transaction."""
APIS_OF_OTHER_GROUPS = ("Share", "Streams", "AlterShare", "DeleteShare", "DescribeShare")
"""How the names of the requests of share and streams groups begin. They are input, and are answered as recorded."""
GROUP_RESOURCE = 32
"""The type of a group in the requests that change settings (ConfigResource.Type)."""
SET_OPERATION = 0
MAX_EXPIRATIONS = 100_000
"""A conversation may not last longer than this many intervals between deletions of expired offsets. A broker of the
default settings needs almost two years for them."""


class Player:
    """The replay of one conversation against our coordinator.

    Parameters
    ----------
    header, lines
        The conversation, as `read_conversation` returns it.
    out
        A new or empty folder, into which our coordinator writes its log.
    kafka
        The Kafka version whose rules the coordinator follows. None: the version of the recorded broker.
    recorded_log
        The folder with the log that the recorded broker wrote: batches of share and streams groups are input.

    Raises
    ------
    UsageError
        The header's config has a wrong value, or the conversation is above MAX_EXPIRATIONS. `play` raises it for a
        line that cannot be played.
    """

    def __init__(
        self,
        header: Json,
        lines: list[Json],
        out: str | Path,
        kafka: str | None = None,
        recorded_log: Path | None = None,
    ) -> None:
        self.settings = _read_header_settings(header, kafka or header["broker"])
        self.file = header.get("file", "conversation")
        self.lines = lines
        self._end_ms = max((time for line in lines for time in (line["ms"], line.get("up_ms", 0))), default=0)
        if self._end_ms > MAX_EXPIRATIONS * self.settings.offsets_retention_check_interval_ms:
            limit = f"{MAX_EXPIRATIONS} times offsets.retention.check.interval.ms"
            raise UsageError(f"the conversation lasts {self._end_ms} ms, above {limit}; correct the times in its lines")
        self.start_ms: int = header["start_ms"]
        self.clock = Clock(self.start_ms)
        self.logs = open_logs(out, self.settings, on_append=self._output_append)
        self.topics: dict[str, int] = dict(header["topics"])
        self.topic_ids = dict(header.get("topic_ids", {})) or conversation.find_topic_ids(header, lines)
        if self.settings.is_at_least(4, 0):
            transaction_partitions = int(header["config"].get("transaction.state.log.num.partitions", 50))
            self.topics |= {"__consumer_offsets": header["partitions"], "__transaction_state": transaction_partitions}
            self.topic_ids |= conversation.find_internal_topic_ids(lines, set(self.topic_ids.values()))
        self.group_configs: dict[str, dict[str, str]] = {}
        self.zookeeper: dict[tuple[str, str, int], int] = {}
        self._member_ids = conversation.RecordedMemberIds(lines)
        # The batches that the current request appends. None while no request is replayed.
        self._request_appends: list[Json] | None = None
        self._up_ms = 0
        # Why a batch is appended while no request is replayed, for the output.
        self._append_reason = ""
        self._output: list[Json] = []
        self.transactions = conversation.Transactions(partial(partition_for, partitions=header["partitions"]))
        self.coordinator = self._start_broker()
        self.recorded_log = recorded_log

    def play(self) -> Iterator[Json]:
        """Yield a JSON line for each request, and for each append that no request caused.

        If our coordinator did not answer a request, the field `response` is null.
        """
        for number, line in enumerate(self.lines, 2):
            try:
                self._play_line(line)
            except (ValueError, TypeError, AttributeError, KeyError) as error:
                reason = f"expected the field {error}" if isinstance(error, KeyError) else error
                raise UsageError(f"{self.file}, line {number}: {reason}") from error
        self._advance(self._end_ms)
        self.logs.close()
        self._move_appends()
        yield from self._output

    def _play_line(self, line: Json) -> None:
        if "api" in line:
            self._advance(line["ms"])
            self._play_request(line)
        elif line.get("event") == "restart":
            self._advance(line["ms"])
            self.clock.clear_timers()  # While the broker is down, no session times out.
            self._up_ms = line["up_ms"]
            self.clock.advance_to(self.start_ms + self._up_ms)
            self.coordinator = self._start_broker()
        elif line.get("event") == "append":
            self._advance(line["ms"] - 1)  # Timers that are due at the time of the append run after the append.
            self._play_append(line)
            if line["why"] != "expiry":
                self._append_recorded(line)

    def _start_broker(self) -> GroupCoordinator:
        coordinator = start_broker(
            self.logs,
            self.clock,
            self.settings,
            new_member_id=self._member_ids.supply,
            topics=self.topics,
            topic_ids=self.topic_ids,
            verify=self.transactions.verify,
            zookeeper=self.zookeeper,
            group_configs=self.group_configs,
        )
        coordinator.start_expiration(self._find_expiration_delay())
        return coordinator

    def _find_expiration_delay(self) -> int:
        """Return the delay from this start of the broker to the first deletion of expired offsets, as recorded."""
        interval_ms = self.settings.offsets_retention_check_interval_ms
        broker_start_ms = self.clock.now_ms - self.start_ms
        restart_times_ms = [line["ms"] for line in self.lines if line.get("event") == "restart"]
        next_restart_ms = min((ms for ms in restart_times_ms if ms > broker_start_ms), default=math.inf)
        times_ms = [line["ms"] for line in self.lines if line.get("why") == "expiry"]
        delays_ms = [ms - broker_start_ms for ms in times_ms if broker_start_ms <= ms < next_restart_ms]
        if not delays_ms:
            return interval_ms
        # A broker runs the deletions one interval apart, but a deletion can be recorded some ms late. The lateness is
        # relative to a schedule that begins at the first recorded deletion. A negative lateness means that the first
        # deletion was later. The deletion with the smallest lateness is nearest to the broker's own schedule.
        half_ms = interval_ms // 2
        lateness_ms = [(delay_ms - delays_ms[0] + half_ms) % interval_ms - half_ms for delay_ms in delays_ms]
        # A delay of 0 ms means that the first deletion is one interval away.
        return (delays_ms[0] + min(lateness_ms)) % interval_ms or interval_ms

    def _advance(self, ms: int) -> None:
        self._request_appends = None
        self._append_reason = "time-out"
        self.clock.advance_to(self.start_ms + ms)

    def _play_request(self, line: Json) -> None:
        is_of_other_groups = line["api"].startswith(APIS_OF_OTHER_GROUPS)
        if line["api"] not in HANDLERS and not is_of_other_groups:
            if line["response"] is not None:
                self._apply_decision(line["api"], line["request"], line["response"])
            return
        output: Json = {"n": line["n"], "api": line["api"], "response": None, "appended": []}
        self._output.append(output)
        self._request_appends = output["appended"]
        if is_of_other_groups:
            output["response"] = line["response"]
            self._append_recorded(line)
        else:
            self._ask_coordinator(line, output)
        self._request_appends = None
        if line["api"] == "TxnOffsetCommit":
            producer = line["request"]
            for batch in output["appended"]:
                self.transactions.note_append(producer["producerId"], producer["producerEpoch"], batch["partition"])

    def _ask_coordinator(self, line: Json, output: Json) -> None:
        self._member_ids.prepare(line)
        self.transactions.request_adds_partition = line["api_version"] >= FIRST_THAT_ADDS_TO_TRANSACTION
        body = line["request"]
        share_groups = self._find_share_groups(body) if line["api"] == "DeleteGroups" else []
        if share_groups:
            body = {"groupsNames": [name for name in body["groupsNames"] if name not in share_groups]}
            self._append_recorded(line, ["share"])
        request = Request(line["api"], line["api_version"], body, line["client_id"])
        handle(self._find_coordinator(line), request).then(lambda response: output.update(response=response))
        if share_groups:
            output["response"]["results"] += [
                result for result in line["response"]["results"] if result["groupId"] in share_groups
            ]

    def _move_appends(self) -> None:
        """Move batches to the request for which the recording counts them.

        - Since 4.0, a broker builds the batch with the record of a new group after it refused the JoinGroup, so the
          next request can arrive before the batch is in the log.
        - The leader's SyncGroup writes, and all SyncGroups that wait are answered then.
        """
        recorded_requests = {
            (batch["partition"], batch.get("first")): line["n"]
            for line in self.lines
            for batch in line.get("appended") or ()
            if "api" in line
        }
        outputs = {line["n"]: line for line in self._output if "n" in line}
        for number, output in outputs.items():
            is_refused_join = output["api"] == "JoinGroup" and (output["response"] or {}).get("errorCode")
            for batch in reversed(list(output["appended"])):
                goal_number = recorded_requests.get((batch["partition"], batch["first"]), number)
                goal = outputs.get(goal_number, output)
                is_other_sync = output["api"] == goal["api"] == "SyncGroup" and goal is not output
                if is_other_sync or (is_refused_join and goal_number == number + 1):
                    output["appended"].remove(batch)
                    goal["appended"].insert(0, batch)

    def _find_coordinator(self, line: Json) -> GroupCoordinator:
        """Return the coordinator that answers a request.

        No line says when a broker that stops or starts gives up or loads its partitions, but the recorded response
        does. Then another coordinator answers, which has no partition, or loads them all.
        """
        error = (line["response"] or {}).get("errorCode")
        if line["ms"] >= self._up_ms or error not in (Errors.NOT_COORDINATOR, Errors.COORDINATOR_LOAD_IN_PROGRESS):
            return self.coordinator
        coordinator = GroupCoordinator(self.logs, self.clock, self.settings, new_member_id=self._member_ids.supply)
        if error == Errors.COORDINATOR_LOAD_IN_PROGRESS:
            coordinator.manager.loading.update(range(self.settings.offsets_topic_num_partitions))
        return coordinator

    def _apply_decision(self, api: str, request: Json, response: Json) -> None:
        apply = {
            "InitProducerId": self.transactions.init_producer_id,
            "AddOffsetsToTxn": self.transactions.add_offsets,
            "EndTxn": self.transactions.end,
            "CreateTopics": self._create_topics,
            "DeleteTopics": self._delete_topics,
            "CreatePartitions": self._create_partitions,
            "IncrementalAlterConfigs": self._alter_configs,
        }
        if api in apply:
            apply[api](request, response)

    def _create_partitions(self, request: Json, response: Json) -> None:
        created = {topic["name"] for topic in response["results"] if not topic["errorCode"]}
        self.topics.update({topic["name"]: topic["count"] for topic in request["topics"] if topic["name"] in created})

    def _alter_configs(self, request: Json, response: Json) -> None:
        accepted = {each["resourceName"] for each in response["responses"] if not each["errorCode"]}
        for resource in request["resources"]:
            if resource["resourceType"] != GROUP_RESOURCE or resource["resourceName"] not in accepted:
                continue
            configs = self.group_configs.setdefault(resource["resourceName"], {})
            for config in resource["configs"]:
                if config["configOperation"] == SET_OPERATION:
                    configs[config["name"]] = config["value"]
                else:
                    configs.pop(config["name"], None)

    def _create_topics(self, request: Json, response: Json) -> None:
        created = {topic["name"]: topic for topic in response["topics"] if not topic["errorCode"]}
        for topic in request["topics"]:
            name = topic["name"]
            if name in created:
                # If the request contains -1, the broker chooses the partition count, and the response contains it.
                count = max(topic["numPartitions"], created[name].get("numPartitions", 1))
                self.topics[name] = msgspec.convert(count, conversation.PartitionCount)
                self.topic_ids[name] = created[name].get("topicId") or conversation.make_topic_id(
                    f"{name} {self.clock.now_ms}"
                )

    def _delete_topics(self, _request: Json, response: Json) -> None:
        deleted_topics = {topic["name"] for topic in response["responses"] if not topic["errorCode"]}
        partitions = [
            TopicPartition(topic, partition)
            for topic in deleted_topics
            for partition in range(self.topics.pop(topic, 0))
        ]
        self._request_appends = None
        self._append_reason = "topic deletion"
        self.coordinator.partitions_deleted(partitions)
        for topic in deleted_topics:
            self.topic_ids.pop(topic, None)

    def _play_append(self, line: Json) -> None:
        """Only transaction markers are appended. Our coordinator makes all other appends itself."""
        if "marker" not in line:
            return
        producer_id = line["producer_id"]
        producer_epoch = line["producer_epoch"]
        commits = line["marker"] == "COMMIT"
        time_ms = self.start_ms + line["ms"]
        partitions = [batch["partition"] for batch in line["appended"]]
        self._request_appends = None
        self._append_reason = line["why"]
        for partition in partitions:
            self.logs.append_marker(partition, producer_id, producer_epoch, commits=commits, timestamp=time_ms)
        self.transactions.end_with_marker(producer_id)
        with suppress(NotAppended):  # A broker logs this error and leaves the groups unchanged.
            self.coordinator.transaction_completed(producer_id, partitions, commits=commits)

    def _find_share_groups(self, request: Json) -> list[str]:
        names = msgspec.convert(request, GroupsBody).groups_names
        groups = {name: self.coordinator.manager.find_modern_group(name) for name in names}
        return [name for name, group in groups.items() if group is not None and group.type == "share"]

    def _append_recorded(self, line: Json, group_types: Collection[str] = ("share", "streams")) -> None:
        self._append_reason = line.get("why", "")
        manager = self.coordinator.manager
        for batch in line.get("appended") or ():
            records = conversation.read_recorded_batch(
                self.recorded_log, batch["partition"], batch.get("first"), group_types
            )
            if records and isinstance(manager, PartitionedGroups):  # The classic coordinator has no such groups.
                manager.append_records(batch["partition"], records)

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
