"""A group's life in print: each request of a consumer prints what it changed.

This module contains no rules. States, responses and records come from the coordinator, and a consumer stores what a
real one stores (`kafkagroups.simulation.Consumer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from kafkagroups.coordinator import Errors, GroupCoordinator, OffsetCommit, ResponseFuture, TopicPartition
from kafkagroups.coordinator.results import JoinGroupResult, SyncGroupResult
from kafkagroups.course.broker import SHOP, read_partition_lines, start_broker
from kafkagroups.course.life_events import Event, format_count
from kafkagroups.course.log_lines import Lines
from kafkagroups.errors import UsageError
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.records.serde import Record, decode
from kafkagroups.simulation import Consumer
from kafkagroups.simulation.member_bytes import read_assignment

R = TypeVar("R")
GroupState = tuple[str, int, tuple[str, ...]]
"""A group's state, generation, and the ids of its members."""


class Life:
    """A group and its consumers. Times are in seconds since the beginning.

    The first `join` of a consumer configures it, and later ones repeat that configuration.

    Parameters
    ----------
    group
        The group id.
    kafka
        The coordinator's Kafka version.
    verbose
        Whether each request prints its event.
    broker
        The coordinator. None: a new one, with `settings` as in `start_broker`.

    Attributes
    ----------
    consumers
        The consumers by name.
    events
        What has happened, one event for each request.
    last_responses
        The text of the last response to each consumer's JoinGroup or SyncGroup, by name.
    """

    def __init__(
        self,
        group: str = "billing",
        kafka: str = "3.9.2",
        *,
        verbose: bool = True,
        broker: GroupCoordinator | None = None,
        **settings: Any,
    ) -> None:
        self.group_id = group
        self.verbose = verbose
        self.coordinator: GroupCoordinator = broker or start_broker(kafka=kafka, **settings)
        self.start_ms = self.coordinator.clock.now_ms
        self.consumers: dict[str, Consumer] = {}
        self.events: list[Event] = []
        self.last_responses: dict[str, str] = {}
        self._late_responses: list[str] = []

    # Requests of consumers

    def join(
        self,
        name: str,
        *,
        instance: str | None = None,
        topics: Iterable[str] = ("orders",),
        protocols: Iterable[str] = ("range",),
        session: float = 45,
        rebalance: float = 300,
        as_new: bool = False,
    ) -> None:
        """Send a JoinGroup. `as_new`: as a new process, which has no member id."""
        if name not in self.consumers or as_new:
            self.consumers[name] = Consumer(
                self.coordinator,
                self.group_id,
                name,
                tuple(topics),
                SHOP,
                tuple(protocols),
                instance,
                session_timeout_ms=round(session * 1000),
                rebalance_timeout_ms=round(rebalance * 1000),
                protocol_version=1,
            )
        consumer = self.consumers[name]

        def handle(result: JoinGroupResult) -> str:
            consumer.handle_join(result)
            return _format_join(result)

        def send() -> str:
            return self._await(name, "JoinGroup", consumer.request_join(), handle)

        member_id = consumer.member_id
        self._add_event(name, f"JoinGroup as {member_id}" if member_id else "JoinGroup, without an id", send)

    def sync(self, name: str) -> None:
        """Send a SyncGroup. The leader sends assignments by range, unless it got skip_assignment."""
        consumer = self.consumers[name]

        def handle(result: SyncGroupResult) -> str:
            consumer.handle_sync(result)
            return _format_sync(result)

        def send() -> str:
            return self._await(name, "SyncGroup", consumer.request_sync(), handle)

        self._add_event(name, "SyncGroup with the assignments" if consumer.is_leader else "SyncGroup", send)

    def heartbeat(self, name: str) -> None:
        """Send a Heartbeat."""
        consumer = self.consumers[name]
        request = f"Heartbeat, generation {consumer.generation}"
        self._add_event(name, request, lambda: consumer.request_heartbeat().name)

    def commit(self, name: str, offsets: Mapping[str, int], generation: int | None = None) -> None:
        """Send an OffsetCommit of partitions like "orders-0", with the member's generation or another one.

        A name without a consumer commits as a client that is not a member.
        """
        consumer = self.consumers.get(name)
        commits = {_parse_partition(partition): OffsetCommit(offset) for partition, offset in offsets.items()}

        def send() -> str:
            if consumer is None:
                sent_generation = -1 if generation is None else generation
                response = self.coordinator.offset_commit(self.group_id, commits, generation=sent_generation)
            else:
                response = consumer.request_commit(commits, generation)
            return _format_errors(response.value)

        request = "OffsetCommit " + ", ".join(f"{partition} = {offset}" for partition, offset in offsets.items())
        self._add_event(name, request if generation is None else f"{request}, generation {generation}", send)

    def leave(self, name: str) -> None:
        """Send a LeaveGroup, and forget the consumer."""
        consumer = self.consumers[name]

        def send() -> str:
            result = consumer.request_leave()
            error = result.error or result.members[0][1]
            return error.name

        self._add_event(name, "LeaveGroup", send)
        del self.consumers[name]

    def delete(self) -> None:
        """Send a DeleteGroups, as an operator does."""

        def send() -> str:
            return self.coordinator.delete_groups([self.group_id])[self.group_id].name

        self._add_event("operator", "DeleteGroups", send)

    def delete_offsets(self, *partitions: str) -> None:
        """Send an OffsetDelete of partitions like "orders-0", as an operator does."""

        def send() -> str:
            result = self.coordinator.offset_delete(self.group_id, [_parse_partition(each) for each in partitions])
            return result.error.name if result.error else _format_errors(result.partitions)

        self._add_event("operator", f"OffsetDelete {', '.join(partitions)}", send)

    def wait(self, seconds: float) -> None:
        """Let time pass without a request, so that the coordinator's timers run."""

        def advance() -> str:
            self.coordinator.clock.advance(round(seconds * 1000))
            return ""

        self._add_event("", f"… {seconds:g} s pass", advance)

    # The group

    @property
    def group(self) -> ClassicGroup | None:
        """The group in the coordinator's cache, or None."""
        return self.coordinator.manager.get_group(self.group_id)

    @property
    def now_s(self) -> float:
        """The time in seconds since the beginning."""
        return (self.coordinator.clock.now_ms - self.start_ms) / 1000

    @property
    def log_lines(self) -> Lines:
        """The lines of the partition that stores the group."""
        return read_partition_lines(self.coordinator, self.group_id)

    def read_record(self, at: int) -> Record:
        """Return the record at an offset of the group's partition. Raises UsageError if it does not exist."""
        manager = self.coordinator.manager
        for batch in manager.logs.read(manager.partition_for(self.group_id)):
            for record in batch.records:
                if record.offset == at:
                    return decode(record.key, record.value)
        raise UsageError(f"group {self.group_id}: its partition has no record {at}; see log_lines")

    def read_state(self) -> GroupState:
        """Return the group's state, its generation, and its member ids."""
        group = self.group
        if group is None:
            return "Dead", 0, ()
        return self.read_state_name(), group.generation, tuple(group.members)

    def read_state_name(self) -> str:
        """Return the group's state as DescribeGroups names it."""
        (group,) = self.coordinator.describe_groups([self.group_id])
        return group.state

    # Events

    def _add_event(self, who: str, request: str, send: Callable[[], str]) -> None:
        """Send a request, and add its event. `send` returns the text of the response."""
        line_count = len(self.log_lines)
        self._late_responses = []
        response = send()
        event = Event(
            self.now_s,
            who,
            request,
            response,
            tuple(self._late_responses),
            Lines(self.log_lines[line_count:]),
            self._format_state(),
        )
        is_new_state = not self.events or self.events[-1].state != event.state
        self.events.append(event)
        if self.verbose:
            state_lines = [f"{'':10}{event.state}"] if is_new_state else []
            print("\n".join(event.format_lines() + state_lines))

    def _format_state(self) -> str:
        if self.group is None:
            return "Dead: unknown"
        state, generation, members = self.read_state()
        return f"{state}, generation {generation}, {format_count(len(members), 'member')}"

    def _await(self, name: str, api: str, response: ResponseFuture[R], handle: Callable[[R], str]) -> str:
        """Return the response as text, or "waits". A response that comes later is added to that later event."""
        is_late = not response.done

        def receive(result: R) -> None:
            text = handle(result)
            self.last_responses[name] = text
            if is_late:
                self._late_responses.append(f"{name}'s {api} → {text}")

        response.then(receive)
        return "waits" if is_late else self.last_responses[name]


def _format_join(result: JoinGroupResult) -> str:
    if result.error is Errors.MEMBER_ID_REQUIRED:
        return f"MEMBER_ID_REQUIRED, {result.member_id}"
    if result.error is not Errors.NONE:
        return result.error.name
    count = len(result.members)
    leader = f"you lead {format_count(count, 'member')}" if count else f"{result.leader} leads"
    skip = ", skip_assignment" if result.skip_assignment else ""
    return f"generation {result.generation}, {result.protocol}, {leader}{skip}"


def _format_sync(result: SyncGroupResult) -> str:
    if result.error is not Errors.NONE:
        return result.error.name
    topics: dict[str, list[str]] = {}
    for topic, number in read_assignment(result.assignment):
        topics.setdefault(topic, []).append(str(number))
    return ", ".join(f"{topic} {' '.join(numbers)}" for topic, numbers in topics.items()) or "no partitions"


def _format_errors(errors: Mapping[TopicPartition, Errors]) -> str:
    return ", ".join(dict.fromkeys(error.name for error in errors.values()))


def _parse_partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))
