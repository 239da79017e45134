"""Lessons 06, 07 and 09: one group and its consumers, whose requests are the steps of a script; what follows a crash;
and groups in a certain situation.

States, responses and records come from the coordinator, and the consumers are simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from kafkagroups.coordinator import Consumer, Errors, GroupCoordinator, OffsetCommit, ResponseFuture, TopicPartition
from kafkagroups.coordinator.messages import CommitErrors, JoinGroupResult, SyncGroupResult
from kafkagroups.coordinator.simulated_consumers import ConsumerState, read_assignment
from kafkagroups.course.broker import SHOP_TOPICS, read_partition_lines, start_broker
from kafkagroups.course.log_lines import Lines, find_record
from kafkagroups.groups.living_groups import ClassicGroup
from kafkagroups.records.releases import parse_release
from kafkagroups.records.serde import Record, decode


@dataclass(frozen=True)
class Event:
    """A request of a client, as text, or a time in which no request was sent.

    `time_s` counts from the start of the `GroupLife`. `late_responses` arrived during this event, but answer earlier
    requests. `written_lines` has the records that the event appended to the group's partition.
    """

    time_s: float
    client: str
    request: str
    response: str
    late_responses: tuple[str, ...]
    written_lines: Lines
    state: str


def format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count or 'no'} {noun}s"


Result = TypeVar("Result")
GroupState = tuple[str, int, tuple[str, ...]]
Step = tuple[str, str]
"""The request and who sent it, and what it changed."""


class GroupLife:
    """A group and its consumers. Each method sends one request, and returns it as a step for `compare_brokers`.

    The first `join` of a consumer sets its configuration, for example its topics and timeouts, which a later `join`
    ignores, unless `new_process` is true. Without a `broker`, `kafka` and `settings` are those of a new one (see
    `start_broker`). `events` has one event for each request and each `wait`, with times in seconds since this object
    was created.
    """

    def __init__(
        self, group: str = "billing", kafka: str = "3.9.2", *, broker: GroupCoordinator | None = None, **settings: Any
    ) -> None:
        self.group_id = group
        self.coordinator: GroupCoordinator = broker or start_broker(kafka=kafka, **settings)
        self.start_ms = self.coordinator.clock.now_ms
        self.consumers: dict[str, Consumer] = {}
        self.events: list[Event] = []
        self._late_responses: list[str] = []

    # Requests of consumers

    def join(
        self,
        name: str,
        *,
        instance: str | None = None,
        topics: Iterable[str] = ("orders",),
        protocols: Iterable[str] = ("range",),
        session_s: float = 45,
        rebalance_s: float = 300,
        new_process: bool = False,
    ) -> Step:
        """Send a JoinGroup request of a consumer, whose preferred assignor comes first in `protocols`.

        `instance` is the group instance id of a static member. A `new_process` has no member id yet.
        """
        if name not in self.consumers or new_process:
            self.consumers[name] = Consumer(
                self.coordinator,
                self.group_id,
                name,
                tuple(topics),
                SHOP_TOPICS,
                tuple(protocols),
                group_instance_id=instance,
                session_timeout_ms=round(session_s * 1000),
                rebalance_timeout_ms=round(rebalance_s * 1000),
                protocol_version=1,
            )
        consumer = self.consumers[name]

        def handle_response(result: JoinGroupResult) -> str:
            consumer.handle_join(result)
            return format_join(result)

        request = f"JoinGroup as {consumer.member_id}" if consumer.member_id else "JoinGroup, without an id"
        return self._send(name, request, consumer.request_join, handle_response)

    def sync(self, name: str) -> Step:
        """The group's leader sends the assignments, which the range assignor computes, unless the response to its
        JoinGroup contained skip_assignment.
        """
        consumer = self.consumers[name]

        def handle_response(result: SyncGroupResult) -> str:
            consumer.handle_sync(result)
            return format_sync(result)

        request = "SyncGroup with the assignments" if consumer.is_leader else "SyncGroup"
        return self._send(name, request, consumer.request_sync, handle_response)

    def heartbeat(self, name: str) -> Step:
        consumer = self.consumers[name]
        request = f"Heartbeat, generation {consumer.generation}"

        return self._send(name, request, consumer.request_heartbeat, lambda error: error.name)

    def commit(self, name: str, offsets: Mapping[str, int], generation: int | None = None) -> Step:
        """Send an OffsetCommit request with an offset for each partition, such as "orders-0".

        If no consumer has this name, the request comes from a client that is not a member, with generation -1 by
        default.
        """
        consumer = self.consumers.get(name)
        commits = {TopicPartition.parse(partition): OffsetCommit(offset) for partition, offset in offsets.items()}

        def send() -> ResponseFuture[CommitErrors]:
            if consumer is not None:
                return consumer.request_commit(commits, generation)
            sent_generation = -1 if generation is None else generation
            return self.coordinator.offset_commit(self.group_id, commits, generation=sent_generation)

        request = "OffsetCommit " + ", ".join(f"{partition} = {offset}" for partition, offset in offsets.items())
        request = request if generation is None else f"{request}, generation {generation}"
        return self._send(name, request, send, lambda got: ", ".join(sorted({error.name for error in got.values()})))

    def leave(self, name: str) -> Step:
        send = self.consumers.pop(name).request_leave
        return self._send(name, "LeaveGroup", send, lambda result: (result.error or result.members[0][1]).name)

    def delete(self) -> Step:
        send = partial(self.coordinator.delete_groups, [self.group_id])
        return self._send("operator", "DeleteGroups", send, lambda errors: errors[self.group_id].name)

    def wait(self, seconds: float) -> Step:
        """Advance the coordinator's clock without a request, and run the timers that are due."""

        advance = partial(self.coordinator.clock.advance, round(seconds * 1000))
        return self._add_event("", f"… {seconds:g} s pass", advance)

    # The group

    @property
    def group(self) -> ClassicGroup | None:
        return self.coordinator.manager.get_group(self.group_id)

    @property
    def now_s(self) -> float:
        return (self.coordinator.clock.now_ms - self.start_ms) / 1000

    @property
    def log_lines(self) -> Lines:
        """One line for each record of the partition that stores the group."""
        return read_partition_lines(self.coordinator, self.group_id)

    def read_record(self, record_offset: int) -> Record:
        manager = self.coordinator.manager
        batches = manager.logs.read(manager.partition_for(self.group_id))
        record = find_record(batches, record_offset, f"the partition of group {self.group_id}")
        return decode(record.key, record.value)

    def read_state(self) -> GroupState:
        """The state is "Dead" if the group does not exist."""
        group = self.group
        if group is None:
            return "Dead", 0, ()
        return self.read_state_name(), group.generation, tuple(group.members)

    def read_state_name(self) -> str:
        (group,) = self.coordinator.describe_groups([self.group_id])
        return group.state

    def describe(self) -> str:
        """Return the group's state, generation and number of members, for example "Stable, generation 2, 1 member"."""
        if self.group is None:
            return "Dead: the group does not exist"
        state, generation, members = self.read_state()
        return f"{state}, generation {generation}, {format_count(len(members), 'member')}"

    # Events

    def _add_event(self, client: str, request: str, send: Callable[[], str | None]) -> Step:
        line_count_before = len(self.log_lines)
        state_before = self.describe()
        self._late_responses = []
        response = send() or ""
        late_responses = tuple(self._late_responses)
        written_lines = Lines(self.log_lines[line_count_before:])
        state = self.describe()
        self.events.append(Event(self.now_s, client, request, response, late_responses, written_lines, state))
        changes = [response, *late_responses, f"now {state}" if state != state_before else ""]
        label = f"{client}: {request}" if client else request
        return label, "; ".join(filter(None, changes)) or "nothing changes"

    def _send(
        self, name: str, request: str, send: Callable[[], ResponseFuture[Result]], convert: Callable[[Result], str]
    ) -> Step:
        """Send a request, and `convert` its response to a text; "waits" if it has not arrived.

        A late response is added to the event during which it arrives.
        """
        api = request.split()[0].rstrip(",")

        def receive() -> str:
            response = send()
            if response.done:
                return convert(response.value)
            response.then(lambda result: self._late_responses.append(f"{name}'s {api} → {convert(result)}"))
            return "waits"

        return self._add_event(name, request, receive)


def format_join(result: JoinGroupResult) -> str:
    if result.error is Errors.MEMBER_ID_REQUIRED:
        return f"MEMBER_ID_REQUIRED, {result.member_id}"
    if result.error is not Errors.NONE:
        return result.error.name
    # Only the leader receives the list of members.
    member_count = len(result.members)
    leader_text = f"you lead {format_count(member_count, 'member')}" if member_count else f"{result.leader} leads"
    skip_text = ", skip_assignment" if result.skip_assignment else ""
    return f"generation {result.generation}, {result.protocol}, {leader_text}{skip_text}"


def format_sync(result: SyncGroupResult) -> str:
    if result.error is not Errors.NONE:
        return result.error.name
    topics: dict[str, list[str]] = {}
    for topic, number in read_assignment(result.assignment):
        topics.setdefault(topic, []).append(str(number))
    return ", ".join(f"{topic} {' '.join(numbers)}" for topic, numbers in topics.items()) or "no partitions"


# The longest simulated time after a crash, in seconds: three rebalance timeouts of 300 seconds.
_MAX_OBSERVED_S = 900
# The time between two heartbeats of a consumer, in seconds.
_HEARTBEAT_INTERVAL_S = 3


class ScriptRequest(NamedTuple):
    """A call of a method of `GroupLife`, `delay_s` after the previous one.

    Only `first_version` and later versions get the request. For example, a new consumer sends a second JoinGroup since
    Kafka 2.2, because the response to the first one contains only a member id.
    """

    delay_s: float
    method: str
    arguments: tuple[Any, ...] = ()
    first_version: str = "0.11"


TWO_CONSUMERS = (
    ScriptRequest(0, "join", ("billing-1",)),
    ScriptRequest(0, "join", ("billing-1",), "2.2"),
    ScriptRequest(0, "wait", (3,)),
    ScriptRequest(0, "sync", ("billing-1",)),
    ScriptRequest(1, "commit", ("billing-1", {"orders-0": 5, "orders-2": 7})),
    ScriptRequest(1, "join", ("billing-2",)),
    ScriptRequest(0, "join", ("billing-2",), "2.2"),
    ScriptRequest(1, "commit", ("billing-1", {"orders-0": 8})),
    ScriptRequest(1, "heartbeat", ("billing-1",)),
    ScriptRequest(0, "join", ("billing-1",)),
    ScriptRequest(3, "heartbeat", ("billing-1",)),
    ScriptRequest(0, "commit", ("billing-1", {"orders-0": 9})),
    ScriptRequest(0, "sync", ("billing-2",)),
    ScriptRequest(1, "sync", ("billing-1",)),
    ScriptRequest(1, "commit", ("billing-2", {"orders-2": 9})),
    ScriptRequest(1, "leave", ("billing-1",)),
    ScriptRequest(1, "heartbeat", ("billing-2",)),
    ScriptRequest(0, "join", ("billing-2",)),
    ScriptRequest(0, "sync", ("billing-2",)),
    ScriptRequest(1, "leave", ("billing-2",)),
    ScriptRequest(1, "delete", (), "1.1"),
)
"""Two consumers of the shop's group `billing` join, commit and leave. Then the group is deleted."""


def play_script(
    script: Sequence[ScriptRequest], kafka: str = "3.9.2", broker: GroupCoordinator | None = None
) -> GroupLife:
    """Send the requests of a script for this Kafka version to a broker, by default a new one, and return the group."""
    life = GroupLife("billing", kafka, broker=broker)
    for request in script:
        if parse_release(kafka) >= parse_release(request.first_version):
            send_request(life, request)
    return life


def send_request(life: GroupLife, request: ScriptRequest, **of_join: Any) -> None:
    """Send a request of a script. A JoinGroup has the additional arguments `of_join`."""
    life.coordinator.clock.advance(round(request.delay_s * 1000))
    getattr(life, request.method)(*request.arguments, **(of_join if request.method == "join" else {}))


def continue_after_crash(life: GroupLife, name: str) -> Iterator[None]:
    """Let the other consumers continue after the consumer `name` has crashed, until the group is settled.

    Yields after each request, and after each second.
    """
    start_s = life.now_s
    next_heartbeat_s = start_s + _HEARTBEAT_INTERVAL_S
    others = [consumer for consumer in life.consumers.values() if consumer.client_id != name]
    while life.now_s - start_s < _MAX_OBSERVED_S and not _is_settled(life, name, others):
        for consumer in others:
            if not consumer.waiting_for:
                _send_next_request(life, consumer, is_heartbeat_due=life.now_s >= next_heartbeat_s)
                yield
        if life.now_s >= next_heartbeat_s:
            next_heartbeat_s += _HEARTBEAT_INTERVAL_S
        life.wait(1)
        yield


def _is_settled(life: GroupLife, crashed_name: str, others: Sequence[Consumer]) -> bool:
    group = life.group
    crashed = life.consumers.get(crashed_name)
    if group is not None and crashed is not None and crashed.member_id in (*group.members, *group.pending_members):
        return False
    if life.read_state_name() not in ("Stable", "Empty", "Dead"):
        return False
    return all(consumer.state is ConsumerState.STABLE and not consumer.waiting_for for consumer in others)


def _send_next_request(life: GroupLife, consumer: Consumer, *, is_heartbeat_due: bool) -> None:
    name = consumer.client_id
    if consumer.state is ConsumerState.JOINING:
        life.join(name)
    elif consumer.state is ConsumerState.SYNCING:
        life.sync(name)
    elif is_heartbeat_due:
        life.heartbeat(name)


def describe_group(group: ClassicGroup | None) -> str:
    if group is None:
        return "no group with this id"
    members = [f"{member} (leads)" if member == group.leader else member for member in group.members]
    return f"{group.state.value}, generation {group.generation}: {', '.join(members) or 'no members'}"


def list_losses(group_before: ClassicGroup | None, group_after: ClassicGroup | None, life: GroupLife) -> list[str]:
    losses = []
    if group_before is not None:
        members_after = set(group_after.members) if group_after else set()
        generation_after = group_after.generation if group_after else 0
        if group_before.generation != generation_after:
            losses.append(f"generation {group_before.generation}")
        if group_before.state.value not in ("Stable", "Empty"):
            losses.append("the rebalance")
        losses += [f"the member {member_id}" for member_id in group_before.members if member_id not in members_after]
        losses += [f"the member id {member_id}, which has not joined yet" for member_id in group_before.pending_members]
        # If a member is only in the loaded group, it left or was removed after the last group record was written.
        losses += [f"the removal of {member_id}" for member_id in sorted(members_after - set(group_before.members))]
    for consumer in life.consumers.values():
        if consumer.waiting_for:
            losses.append(f"the response to {consumer.client_id}'s {consumer.waiting_for}")
    return losses


def run_silent_member(broker: GroupCoordinator | None = None) -> GroupLife:
    """Return the group `billing`, whose second member has sent nothing for 50 seconds.

    The session of `billing-2` has ended, and `billing-1` has not joined again yet.
    """
    life = GroupLife("billing", broker=broker)
    # The response to the first JoinGroup of a client contains only the member id.
    life.join("billing-1")
    life.join("billing-1")
    life.wait(3)
    life.sync("billing-1")
    life.join("billing-2")
    life.join("billing-2")
    life.join("billing-1")
    life.sync("billing-1")
    life.sync("billing-2")
    for _ in range(5):
        life.wait(10)
        life.heartbeat("billing-1")
    return life


def start_two_vans(broker: GroupCoordinator | None = None) -> GroupLife:
    """Return the group `shipping`, Stable in generation 2, with the static members van-1, the leader, and van-2."""
    return _start_vans(2, ("orders",), broker)


def _start_vans(count: int, topics: Iterable[str], broker: GroupCoordinator | None = None) -> GroupLife:
    life = GroupLife("shipping", broker=broker)
    vans = [f"van-{number}" for number in range(1, count + 1)]
    for size in range(1, count + 1):
        # The new member is last in the list. Its JoinGroup starts the rebalance, so it must be sent first.
        for van in reversed(vans[:size]):
            life.join(van, instance=van, topics=topics)
        # The first rebalance of a group waits three seconds for more members (group.initial.rebalance.delay.ms).
        life.wait(3)
        for van in vans[:size]:
            life.sync(van)
    return life


def run_duplicate_static_member() -> GroupLife:
    """Return the group `shipping` after four rounds, in each of which a new process joins as the static member van-2.

    The process that joins last removes the other process from the group.
    """
    topics = ("orders", "stock")
    life = _start_vans(3, topics)
    for round_number in range(4):
        life.wait(20)
        life.join("van-2", instance="van-2", topics=topics, new_process=True)
        for member in ("van-1", "van-2", "van-3"):
            life.heartbeat(member)
        life.commit("van-1", {"orders-0": 10 + round_number})
    return life
