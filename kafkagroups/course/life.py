"""A group's life, told: consumers send plain requests to a coordinator, and each line says what came of one.

Nothing here knows a rule: states, answers and records are the coordinator's. A consumer keeps what a real one keeps:
its member id, its generation, and what it has to do next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafkagroups.coordinator import (
    Errors,
    GroupCoordinator,
    MemberIdentity,
    OffsetCommit,
    TopicPartition,
)
from kafkagroups.coordinator.results import JoinGroupResult, SyncGroupResult
from kafkagroups.course.broker import coordinator, written
from kafkagroups.course.log_lines import Lines
from kafkagroups.course.shares import read_topics, share_out, shown_share, subscription
from kafkagroups.errors import UsageError
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.records.serde import Record, decode

Settled = tuple[str, int, tuple[str, ...]]


@dataclass
class Consumer:
    """What a consumer remembers. `needs`: its next request, "join", "sync" or ""; `hangs`: the one that waits."""

    name: str
    instance: str | None
    topics: tuple[str, ...]
    protocols: tuple[str, ...]
    session_s: float
    rebalance_s: float
    member_id: str = ""
    generation: int = -1
    needs: str = "join"
    hangs: str = ""
    heard: str = ""
    leads: bool = False
    others: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class Event:
    """One request, or some time that passed: what was answered to whom, what was written, the group's state then."""

    at_s: float
    who: str
    asked: str
    answer: str
    others: tuple[str, ...]
    wrote: Lines
    state: str

    def lines(self) -> list[str]:
        said = f"{self.at_s:>6.1f} s  {self.who:<10} {self.asked}"
        out = [f"{said} → {self.answer}" if self.answer else said]
        out += [f"{'':10}{other}" for other in self.others]
        out += [f"{'':10}written {str(line).strip()}" for line in self.wrote]
        return out


class Life:
    """A group and its consumers, on a coordinator of their own or on one that is there. `tells`: every request prints.

    Times are in seconds since the beginning. A consumer's first `join` says how it is set up; later ones repeat that.
    """

    def __init__(
        self,
        group: str = "billing",
        kafka: str = "3.9.2",
        *,
        tells: bool = True,
        broker: GroupCoordinator | None = None,
        **settings: Any,
    ) -> None:
        self.group_id = group
        self.tells = tells
        self.coordinator: GroupCoordinator = broker or coordinator(kafka=kafka, **settings)
        self.start_ms = self.coordinator.clock.now_ms
        self.consumers: dict[str, Consumer] = {}
        self.events: list[Event] = []
        self._heard: list[str] = []

    # What consumers ask

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
        """JoinGroup. `as_new`: as a process that knows no member id (any more)."""
        if name not in self.consumers or as_new:
            self.consumers[name] = Consumer(name, instance, tuple(topics), tuple(protocols), session, rebalance)
        me = self.consumers[name]
        metadata = subscription(me.topics)

        def ask() -> str:
            answer = self.coordinator.join_group(
                self.group_id,
                protocols=[(protocol, metadata) for protocol in me.protocols],
                member_id=me.member_id,
                group_instance_id=me.instance,
                client_id=name,
                session_timeout_ms=round(me.session_s * 1000),
                rebalance_timeout_ms=round(me.rebalance_s * 1000),
            )
            return self._listen(me, "JoinGroup", answer.then, lambda result: self._joined(me, result))

        self._event(name, f"JoinGroup as {me.member_id}" if me.member_id else "JoinGroup, without an id", ask)

    def sync(self, name: str) -> None:
        """SyncGroup: the leader shares out, by ranges, unless it was told to skip_assignment; others ask for theirs."""
        me = self.consumers[name]
        assignments = share_out(me.others) if me.leads else {}

        def ask() -> str:
            answer = self.coordinator.sync_group(self.group_id, me.generation, me.member_id, assignments,
                                                 group_instance_id=me.instance)  # fmt: skip
            return self._listen(me, "SyncGroup", answer.then, lambda result: _synced(me, result))

        self._event(name, "SyncGroup with the shares" if me.leads else "SyncGroup", ask)

    def heartbeat(self, name: str) -> None:
        me = self.consumers[name]

        def ask() -> str:
            error = self.coordinator.heartbeat(
                self.group_id, me.generation, me.member_id, group_instance_id=me.instance
            )
            if error is Errors.REBALANCE_IN_PROGRESS and me.needs != "sync":
                me.needs = "join"
            elif error is Errors.UNKNOWN_MEMBER_ID:
                me.member_id, me.needs = "", "join"
            return error.name

        self._event(name, f"Heartbeat, generation {me.generation}", ask)

    def commit(self, name: str, offsets: Mapping[str, int], generation: int | None = None) -> None:
        """OffsetCommit of partitions as "orders-0", of the member's generation or another."""
        me = self.consumers.get(name)
        named = me.generation if me is not None and generation is None else -1 if generation is None else generation

        def ask() -> str:
            answer = self.coordinator.offset_commit(
                self.group_id,
                {_partition(each): OffsetCommit(offset) for each, offset in offsets.items()},
                generation=named,
                member_id="" if me is None else me.member_id,
                group_instance_id=None if me is None else me.instance,
            )
            return ", ".join(dict.fromkeys(error.name for error in answer.value.values()))

        asked = "OffsetCommit " + ", ".join(f"{each} = {offset}" for each, offset in offsets.items())
        self._event(name, asked + (f", generation {named}" if generation is not None else ""), ask)

    def leave(self, name: str) -> None:
        me = self.consumers[name]

        def ask() -> str:
            result = self.coordinator.leave_group(self.group_id, [MemberIdentity(me.member_id, me.instance)])
            return (result.error or result.members[0][1]).name

        self._event(name, "LeaveGroup", ask)
        del self.consumers[name]

    def delete(self) -> None:
        """DeleteGroups, by an operator."""
        self._event(
            "operator", "DeleteGroups", lambda: self.coordinator.delete_groups([self.group_id])[self.group_id].name
        )

    def delete_offsets(self, *partitions: str) -> None:
        """OffsetDelete, by an operator: partitions as "orders-0"."""

        def ask() -> str:
            result = self.coordinator.offset_delete(self.group_id, [_partition(each) for each in partitions])
            said = dict.fromkeys(error.name for error in result.partitions.values())
            return result.error.name if result.error else ", ".join(said)

        self._event("operator", f"OffsetDelete {', '.join(partitions)}", ask)

    def wait(self, seconds: float) -> None:
        """Nobody asks; the coordinator's timers run."""

        def pass_by() -> str:
            self.coordinator.clock.advance(round(seconds * 1000))
            return ""

        self._event("", f"… {seconds:g} s pass", pass_by)

    # What is

    @property
    def group(self) -> ClassicGroup | None:
        return self.coordinator.manager.get_group(self.group_id)

    @property
    def now_s(self) -> float:
        return (self.coordinator.clock.now_ms - self.start_ms) / 1000

    @property
    def written(self) -> Lines:
        """The lines of the group in its partition."""
        return written(self.coordinator, self.group_id)

    def record(self, at: int) -> Record:
        """A record of the group's partition, decoded. UsageError when it is not there."""
        manager = self.coordinator.manager
        for batch in manager.logs.read(manager.partition_for(self.group_id)):
            for record in batch.records:
                if record.offset == at:
                    return decode(record.key, record.value)
        raise UsageError(f"there is no record {at} yet")

    def settled(self) -> Settled:
        """State, generation, and who is a member."""
        group = self.group
        if group is None:
            return "Dead", 0, ()
        return self.state_name(), group.generation, tuple(group.members)

    def state_name(self) -> str:
        return self.coordinator.describe_groups([self.group_id])[0].state

    # How it is told

    def _event(self, who: str, asked: str, ask: Callable[[], str]) -> None:
        before, self._heard = len(self.written), []
        answer = ask()
        state, generation, members = self.settled()
        event = Event(
            self.now_s, who, asked, answer, tuple(self._heard), Lines(self.written[before:]),
            f"{state}, generation {generation}, {_count(len(members), 'member')}" if self.group else "Dead: unknown",
        )  # fmt: skip
        self.events.append(event)
        if self.tells:
            changed = len(self.events) < 2 or self.events[-2].state != event.state
            print("\n".join(event.lines() + [f"{'':10}{event.state}"] * changed))

    def _listen(
        self, me: Consumer, api: str, then: Callable[[Callable[[Any], None]], None], take: Callable[[Any], str]
    ) -> str:
        """The answer if it is there at once; else it is told when it comes."""
        came: list[str] = []
        me.hangs, waits = api, False

        def hear(result: Any) -> None:
            me.hangs = ""
            me.heard = said = take(result)
            (self._heard if waits else came).append(f"{me.name}'s {api} → {said}" if waits else said)

        then(hear)
        waits = not came
        return came[0] if came else "waits"

    def _joined(self, me: Consumer, result: JoinGroupResult) -> str:
        if result.error is Errors.MEMBER_ID_REQUIRED:
            me.member_id, me.needs = result.member_id, "join"
            return f"MEMBER_ID_REQUIRED, {me.member_id}"
        if result.error is not Errors.NONE:
            me.member_id, me.needs = "", "join"
            return result.error.name
        me.member_id, me.generation, me.needs = result.member_id, result.generation, "sync"
        me.leads = bool(result.members) and not result.skip_assignment
        me.others = tuple((each.member_id, read_topics(each.metadata)) for each in result.members)
        leads = f"you lead {_count(len(me.others), 'member')}" if me.others else f"{result.leader} leads"
        leads += ", skip_assignment" * result.skip_assignment
        return f"generation {result.generation}, {result.protocol}, {leads}"


def _synced(me: Consumer, result: SyncGroupResult) -> str:
    if result.error is not Errors.NONE:
        me.needs = "join"
        return result.error.name
    me.needs = ""
    return shown_share(result.assignment)


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def _count(many: int, noun: str) -> str:
    return f"{many} {noun}" if many == 1 else f"{many or 'no'} {noun}s"
