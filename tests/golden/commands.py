"""A tiny language over a coordinator: a line a command, one word and its arguments, what is answered as lines.

    broker VERSION [SETTING=VALUE…]     another broker; else 3.9.2 without an initial rebalance delay
    join GROUP CLIENT [topics=…] [protocols=…] [type=…] [static=…] [session=MS] [rebalance=MS] [id=MEMBER]
    sync GROUP CLIENT · heartbeat GROUP CLIENT · leave GROUP CLIENT
    commit GROUP orders-0=5… [by=CLIENT] [generation=N] [metadata=TEXT] [retention=MS] [timestamp=MS ago]
    txn GROUP PRODUCER orders-0=5… [by=CLIENT] · end PRODUCER commit|abort
    fetch GROUP [orders-0…] [stable] · describe GROUP… · list [STATE…] · cache GROUP
    delete-group GROUP… · delete-offsets GROUP orders-0… · delete-topic TOPIC · sweep
    zk-commit GROUP orders-0=5 · zk-fetch GROUP orders-0 · epoch-end EPOCH=START… @END ASKED
    hold · release [NUMBER] [ERROR] · refuse ERROR · wait MS · crash · resign · elect · deny KIND:NAME

A client remembers its member id and generation. Answers that come later are told when they come, and every append as
`log: …` with its position.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import kafkagroups as kg
from kafkagroups.coordinator import Errors, MemberIdentity, OffsetCommit, TopicPartition, offset_for_leader_epoch
from kafkagroups.log.compression import CompressionType
from tests.coordinator.conftest import TOPICS, Broker
from tests.coordinator.world import NOW, subscription


class Script:
    """Runs commands; each gives its lines."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.brokers = folder, 0
        self.lines: list[str] = []
        self.do_broker("3.9.2")

    def run(self, command: str) -> list[str]:
        """What one command answers, and what came of it."""
        self.lines = []
        name, *words = shlex.split(command)
        plain = [word for word in words if "=" not in word]
        named = dict(word.split("=", 1) for word in words if "=" in word)
        getattr(self, "do_" + name.replace("-", "_"))(*plain, **named)
        return self.lines

    def say(self, line: str) -> None:
        self.lines.append(line)

    # The broker

    def do_broker(self, version, **settings):
        self.brokers += 1
        options = {name: int(value) for name, value in settings.items() if name != "codec"}
        if "codec" in settings:
            options["offsets_topic_compression_codec"] = CompressionType[settings["codec"].upper()]
        options.setdefault("group_initial_rebalance_delay_ms", 0)
        self.kafka = _Telling(self, self.folder / str(self.brokers), version, TOPICS, **options)
        self.clients: dict[str, dict] = {}

    @property
    def it(self):
        return self.kafka.coordinator

    def do_crash(self):
        self.kafka.start()

    def do_resign(self):
        self.it.resign(0)

    def do_elect(self):
        self.it.elect(0)

    def do_wait(self, ms):
        self.kafka.clock.advance(int(ms))

    def do_hold(self):
        self.kafka.logs.holds = True

    def do_refuse(self, error):
        self.kafka.logs.refuses = Errors[error]

    def do_release(self, number="0", error="NONE"):
        self.kafka.logs.release(int(number), Errors[error])

    def do_deny(self, what):
        kind, _, name = what.partition(":")
        self.it.authorize = lambda operation, its, whose: (its, whose) != (kind, name)

    # Members

    def do_join(self, group, name, topics="orders", protocols="range", type="consumer", session="10000",
                rebalance="20000", static=None, id=None):  # fmt: skip
        client = self.clients.setdefault(name, {"id": "", "generation": -1, "static": static})
        bytes_ = subscription(*topics.split(","))

        def joined(result):
            if result.error is not Errors.NONE:
                self.say(f"{name}: {result.error.name} {result.member_id}".rstrip())
                if result.error is Errors.MEMBER_ID_REQUIRED:
                    client["id"] = result.member_id
                return
            client["id"], client["generation"] = result.member_id, result.generation
            members = " with " + ", ".join(each.member_id for each in result.members) if result.members else ""
            self.say(f"{name}: {result.member_id} in generation {result.generation}, {result.protocol},"
                     f" leader {result.leader}{members}")  # fmt: skip
            client["members"] = [each.member_id for each in result.members]

        answer = self.it.join_group(
            group, protocols=[(each, bytes_) for each in protocols.split(",") if each],
            member_id=client["id"] if id is None else id, group_instance_id=client["static"], client_id=name,
            session_timeout_ms=int(session), rebalance_timeout_ms=int(rebalance), protocol_type=type,
        )  # fmt: skip
        self.later(name, answer, joined)

    def later(self, name, answer, told):
        if not answer.done:
            self.say(f"{name}: waits")
        answer.then(told)

    def do_sync(self, group, name):
        client = self.clients[name]
        assignments = {each: f"for {each}".encode() for each in client.get("members", [])}
        answer = self.it.sync_group(
            group, client["generation"], client["id"], assignments, group_instance_id=client["static"]
        )
        self.later(name, answer, lambda result: self.say(
            f"{name}: {result.error.name if result.error else result.assignment.decode() or 'no assignment'}"
        ))  # fmt: skip

    def do_heartbeat(self, group, name, generation=None):
        client = self.clients[name]
        number = client["generation"] if generation is None else int(generation)
        self.say(f"{name}: {self.it.heartbeat(group, number, client['id'], group_instance_id=client['static']).name}")

    def do_leave(self, group, name):
        client = self.clients[name]
        result = self.it.leave_group(group, [MemberIdentity(client["id"], client["static"])])
        self.say(f"{name}: " + ", ".join(error.name for _, error in result.members))

    # Commits

    def do_commit(
        self, group, by=None, generation=None, metadata="", retention="-1", timestamp=None, id=None, **offsets
    ):
        client = self.clients.get(by or "", {"id": "", "generation": -1, "static": None})
        time = -1 if timestamp is None else self.kafka.clock.now_ms - int(timestamp)
        answer = self.it.offset_commit(
            group, {_partition(each): OffsetCommit(int(offset), metadata.replace("4097x", "x" * 4097), -1, time)
                    for each, offset in offsets.items()},
            generation=client["generation"] if generation is None else int(generation),
            member_id=client["id"] if id is None else id, group_instance_id=client["static"],
            retention_ms=int(retention),
        )  # fmt: skip
        self.later(by or group, answer, lambda errors: self.say(f"{by or group}: {_errors(errors)}"))

    def do_txn(self, group, producer, by=None, metadata="", **offsets):
        client = self.clients.get(by or "", {"id": "", "generation": -1, "static": None})
        answer = self.it.txn_offset_commit(
            group, {_partition(each): OffsetCommit(int(offset), metadata) for each, offset in offsets.items()},
            transactional_id="t", producer_id=int(producer), producer_epoch=0, generation=client["generation"],
            member_id=client["id"], group_instance_id=client["static"],
        )  # fmt: skip
        self.later(f"producer {producer}", answer, lambda errors: self.say(f"producer {producer}: {_errors(errors)}"))

    def do_end(self, producer, what):
        self.kafka.end(int(producer), commits=what == "commit")

    def do_zk_commit(self, group, **offsets):
        answer = self.it.offset_commit_to_zookeeper(
            group, {_partition(each): OffsetCommit(int(offset)) for each, offset in offsets.items()}
        )
        self.say(f"{group}: {_errors(answer.value)}")

    def do_zk_fetch(self, group, *partitions):
        self.fetched(group, self.it.offset_fetch_from_zookeeper(group, map(_partition, partitions)))

    # Asking

    def do_fetch(self, group, *partitions):
        stable = "stable" in partitions
        named = [_partition(each) for each in partitions if each != "stable"]
        self.fetched(group, self.it.offset_fetch(group, named or None, require_stable=stable))

    def fetched(self, group, result):
        told = [
            f"{each}={it.error.name if it.error else it.offset}" + (f" {it.metadata[:20]!r}" if it.metadata else "")
            for each, it in sorted(result.offsets.items())
        ]
        self.say(f"{group}: {result.error.name if result.error else ', '.join(told) or 'nothing'}")

    def do_describe(self, *groups):
        for told in self.it.describe_groups(groups):
            members = "".join(f"; {each.member_id} {each.assignment.decode()!r}" for each in told.members)
            words = f"{told.error.name if told.error else told.state} {told.protocol_type} {told.protocol}".split()
            self.say(f"{told.group_id}: {' '.join(words)}{members}")

    def do_list(self, *states):
        error, groups = self.it.list_groups(states)
        told = sorted(f"{each.group_id} ({' '.join([each.state, each.protocol_type]).rstrip()})" for each in groups)
        self.say((f"{error.name}: " if error else "") + (", ".join(told) or "nothing"))

    def do_cache(self, *groups):
        """What the coordinator has in memory."""
        for group_id in groups:
            group = self.kafka.group(group_id)
            if group is None:
                self.say(f"{group_id}: not in the cache")
                continue
            offsets = group.offsets
            shown = [("committed", offsets.committed), ("pending", offsets.pending)]
            shown += [(f"pending of producer {each}", there) for each, there in sorted(offsets.transactions.items())]
            told = [f"{name} {', '.join(f'{each}={it.offset}' for each, it in sorted(there.items()))}"
                    for name, there in shown if there]  # fmt: skip
            pending = f", pending members {', '.join(group.pending_members)}" if group.pending_members else ""
            self.say("; ".join([f"{group_id}: {group.state.value}, generation {group.generation}{pending}", *told]))

    # Deleting

    def do_delete_group(self, *groups):
        for group_id, error in self.it.delete_groups(groups).items():
            self.say(f"{group_id}: {error.name}")

    def do_delete_offsets(self, group, *partitions):
        result = self.it.offset_delete(group, [_partition(each) for each in partitions])
        self.say(f"{group}: {result.error.name if result.error else _errors(result.partitions)}")

    def do_delete_topic(self, topic):
        count = self.it.partitions_deleted([TopicPartition(topic, n) for n in range(TOPICS[topic])])
        self.say(f"{count} offsets")

    def do_sweep(self):
        self.say(f"{self.it.manager.cleanup_expired()} offsets")

    def do_epoch_end(self, *words, **starts):
        """Where an epoch of a partition's leader ended, in a log whose epochs began there and which ends @there."""
        end, asked = (int(word.lstrip("@")) for word in words)
        epoch, offset = offset_for_leader_epoch([(int(each), int(at)) for each, at in starts.items()], end, asked)
        self.say(f"epoch {epoch} ended at {offset}")


class _Telling(Broker):
    """A broker whose appends are told."""

    def __init__(self, script, *args, **options):
        self.script = script
        super().__init__(*args, **options)
        write = self.logs.logs.on_append

        def written(partition, first, last):
            write(partition, first, last)
            *_, batch = self.logs.logs.read(partition)
            script.say(f"log: {first} {_told(batch, self.coordinator.manager.rules)}")

        self.logs.logs.on_append = written


def _told(batch, rules) -> str:
    kind = f" of producer {batch.producer_id}" if batch.producer_id != -1 else ""
    if batch.is_control:
        (record,) = batch.records
        return ("COMMIT" if record.key[3] == 1 else "ABORT") + kind
    codec = f" {batch.compression.name.lower()}" if batch.compression else ""
    return ", ".join(sorted(_record(kg.decode(each.key, each.value, rules)) for each in batch.records)) + kind + codec


def _record(record) -> str:
    key, value = record.key, record.value
    name = f"{key.group} {key.topic}-{key.partition}" if record.type == 1 else f"group {key.group}"
    if value is None:
        return f"{name} deleted"
    if record.type == 1:
        times = [f"committed {value.commit_timestamp - NOW}"] if value.commit_timestamp != NOW else []
        times += [f"expires {value.expire_timestamp - NOW}"] if value.expire_timestamp != -1 else []
        return f"{name} = {' '.join([str(value.offset), *times])} (v{record.value_version})"
    members = ", ".join(f"{each.member_id} {each.assignment.decode()!r}" for each in value.members)
    protocol = value.protocol or "no protocol"
    return f"{name} generation {value.generation}, {protocol}, [{members}] (v{record.value_version})"


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def _errors(errors) -> str:
    return ", ".join(f"{each} {error.name}" for each, error in sorted(errors.items())) or "nothing"
