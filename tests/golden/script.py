"""Golden scripts of the group coordinator: a small language, played on one broker whose clock `wait` advances.

A script consists of blocks with an empty line between them. A block has commands, one per line, then `---`, then the
recorded answers and appended batches. `#` begins a comment. A number in a comment is the number of a request in the
conversation that the script restates.
Commands are the methods of `Broker`, with words and name=value as arguments. The broker has the settings of the
conversations: four partitions of the offsets topic, no initial rebalance delay, short session timeouts. Each topic has
three partitions.

A name without `-` (`a`) is a client that has no member id yet; it gets the ids a-1, a-2, ... An offset is written
OFFSET[@LEADER_EPOCH][:METADATA], and its metadata may be x*4096. An answer that comes while `wait` runs begins with the
number of ms since then.
"""

import logging
import re
import shlex
from collections import defaultdict

from kafkagroups.coordinator import (
    Clock,
    Errors,
    HeldLogs,
    MemberIdentity,
    OffsetCommit,
    TopicPartition,
    offset_for_leader_epoch,
    open_logs,
    read_settings,
    start_broker,
)
from kafkagroups.coordinator.conversation import Transactions
from kafkagroups.groups.group import ClassicState
from kafkagroups.groups.living_groups import NotAppended
from tests.golden import texts
from tests.handmade import ConsumerProtocolSubscription, VersionedMessage, encode_versioned

NOW = 1_700_000_000_000
CONFIG = {
    "offsets.topic.num.partitions": 4,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "group.max.session.timeout.ms": 300_000,
}
TOPICS = {"orders": 3, "clicks": 3}


def play(script, folder):
    """Return the script with the answers of today's coordinator."""
    broker = Broker(folder)
    logger = logging.getLogger("kafkagroups.coordinator")
    listener = Listener(broker.add_log_line)
    level = logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.INFO)
    try:
        return "\n\n".join(_block(broker, each) for each in script.strip("\n").split("\n\n")) + "\n"
    finally:
        logger.setLevel(level)
        logger.removeHandler(listener)


def _block(broker, block):
    commands = block.split("\n---")[0]
    output = broker.run(commands.splitlines())
    return "\n".join([commands, "---", *output] if output else [commands])


class Listener(logging.Handler):
    """A handler that passes each log line to a function."""

    def __init__(self, add_line):
        super().__init__(logging.INFO)
        self.add_line = add_line

    def emit(self, record):
        self.add_line(record.getMessage())


class Broker:
    """Every public method is a command."""

    def __init__(self, folder):
        self.folder = folder
        self.output = []
        self.shows_log = False
        self.kafka("3.9.2")

    def run(self, lines):
        """Run the commands and return the lines that they output."""
        self.output = []
        for line in lines:
            verb, *words = shlex.split(line, comments=True) or [None]
            self.command_ms = self.clock.now_ms
            options = dict(word.split("=", 1) for word in words if "=" in word)
            try:
                if verb:
                    getattr(self, verb)(*(word for word in words if "=" not in word), **options)
            except Exception as error:
                error.add_note(line)
                raise
        return self.output

    def _print(self, text):
        waited_ms = self.clock.now_ms - self.command_ms
        self.output += (f"after {waited_ms}: {text}" if waited_ms else text).splitlines()

    def _print_response(self, who, response, write, what=()):
        if not response.done:
            self._print(f"{who}: {' '.join([*what, 'waits'])}")
        response.then(lambda result: self._print(f"{who}: {write(result)}"))

    # The broker

    def kafka(self, version):
        """Start a new broker of that version with an empty log."""
        self.version = version
        self.config = dict(CONFIG)
        self.topics = dict(TOPICS)
        self.clock = Clock(NOW)
        self.ids = defaultdict(int)
        self.denied = set()
        self.zookeeper = {}
        self.command_ms = NOW
        self.path = self.folder / f"{version}-{len(list(self.folder.iterdir()))}"
        self.path.mkdir()
        self.disk = None
        self.transactions = Transactions(lambda group: self.coordinator.manager.partition_for(group))
        self.crash()

    def set(self, setting, value):
        """Restart with a changed server.properties."""
        self.config[setting] = value
        self.crash()

    def crash(self):
        """Crash and start again: the broker loads its log."""
        self.clock.clear_timers()
        if self.disk:
            self.disk.close()
        settings = read_settings(self.version, self.config)
        self.disk = open_logs(self.path, settings, on_append=self._appended)
        self.logs = HeldLogs(self.disk, holds_answers=False)
        self.coordinator = start_broker(
            self.logs,
            self.clock,
            settings,
            new_member_id=self._new_member_id,
            topics=self.topics,
            authorize=lambda *request: request not in self.denied,
            verify=self._verify,
            zookeeper=self.zookeeper,
        )

    def _new_member_id(self, name):
        self.ids[name] += 1
        return f"{name}-{self.ids[name]}"

    def wait(self, ms):
        self.clock.advance(int(ms))

    def loading(self, partition):
        """Begin to load the partition, until `load`."""
        self.coordinator.manager.owned.discard(int(partition))
        self.coordinator.manager.loading.add(int(partition))

    def load(self, partition, epoch="0"):
        self.coordinator.elect(int(partition), int(epoch))

    def unload(self, partition, epoch=None):
        self.coordinator.resign(int(partition), epoch and int(epoch))

    def stop(self):
        self.coordinator.shut_down()

    def deny(self, operation, kind, name):
        self.denied.add((operation, kind, name))

    def deletetopic(self, name):
        self.coordinator.partitions_deleted([TopicPartition(name, at) for at in range(self.topics.pop(name))])

    def createtopic(self, name):
        self.topics[name] = 3

    def sweep(self):
        """Delete expired offsets now."""
        self.coordinator.manager.delete_expired()

    def sweeps(self):
        """Delete expired offsets at the broker's interval."""
        self.coordinator.start_expiration(self.coordinator.settings.offsets_retention_check_interval_ms)

    # Its log

    def hold(self):
        """Delay the answers to appends until `release`."""
        self.logs.holds_answers = True

    def release(self, number="0", error="NONE"):
        self.logs.release(int(number), Errors[error])

    def refuse(self, error):
        """Refuse appends with that error. NONE: accept them again."""
        self.logs.append_error = Errors[error]

    def magic(self, magic):
        """Set the message format of the offsets topic. `none`: the partition is not on this broker."""
        value = None if magic == "none" else int(magic)
        self.disk.magic = lambda partition: value

    def _appended(self, partition, first, last):
        batch = next(each for each in self.disk.read(partition) if each.base_offset == first)
        self._print(texts.batch(partition, batch, self.coordinator.manager.dialect))

    def log(self):
        """Show the coordinator's log lines from now on."""
        self.shows_log = True

    def add_log_line(self, line):
        if self.shows_log:
            self._print(f"log: {line}")

    # Members

    def join(
        self,
        group,
        name,
        instance=None,
        protocols="range",
        topics="orders",
        metadata=None,
        type="consumer",
        session="10000",
        rebalance="60000",
    ):
        """Send a JoinGroup. `protocols` and `topics` are separated by commas; `metadata` replaces the subscription."""
        wanted = encode_versioned(VersionedMessage(1, ConsumerProtocolSubscription(topics=tuple(topics.split(",")))))
        answer = self.coordinator.join_group(
            group,
            protocols=[(each, metadata.encode() if metadata else wanted) for each in protocols.split(",") if each],
            member_id=name if "-" in name else "",
            group_instance_id=instance,
            client_id=name.rsplit("-", 1)[0],
            session_timeout_ms=int(session),
            rebalance_timeout_ms=int(rebalance),
            protocol_type=type,
        )
        self._print_response(f"join {name}", answer, texts.join)

    def sync(self, group, generation, member, instance=None, type=None, protocol=None, **assignments):
        whole = {each: assignment.encode() for each, assignment in assignments.items()}
        answer = self.coordinator.sync_group(
            group, int(generation), member, whole, group_instance_id=instance, protocol_type=type, protocol=protocol
        )
        self._print_response(f"sync {member or texts.EMPTY}", answer, texts.sync)

    def heartbeat(self, group, generation, member, instance=None):
        error = self.coordinator.heartbeat(group, int(generation), member, group_instance_id=instance).value
        self._print(f"heartbeat {member or texts.EMPTY}: {error.name}")

    def leave(self, group, *members):
        """Send a LeaveGroup. Each member is MEMBER or [MEMBER]/INSTANCE."""
        leaving = [MemberIdentity(*each.split("/")) for each in members]
        self._print(f"leave: {texts.leave(self.coordinator.leave_group(group, leaving).value)}")

    # Offsets

    def commit(self, group, generation="-1", member="", instance=None, retention="-1", timestamp=None, **offsets):
        """Send an OffsetCommit. `timestamp` is in ms from now, as in OffsetCommit v1."""
        at = -1 if timestamp is None else self.clock.now_ms + int(timestamp)
        answer = self.coordinator.offset_commit(
            group,
            _offsets(offsets, at),
            generation=int(generation),
            member_id=member,
            group_instance_id=instance,
            retention_ms=int(retention),
        )
        self._print_response(
            "commit", answer, texts.commits(offsets), [f"{partition}={offset}" for partition, offset in offsets.items()]
        )

    def addoffsets(self, producer, group):
        """Send AddOffsetsToTxn to the transaction coordinator, and InitProducerId first if the epoch is new."""
        producer_id, epoch = map(int, producer.split("/"))
        name = {"transactionalId": f"t{producer_id}", "groupId": group}
        known = self.transactions.by_id.get(f"t{producer_id}")
        if known is None or known.producer_epoch != epoch:
            answer = {"errorCode": 0, "producerId": producer_id, "producerEpoch": epoch}
            self.transactions.init_producer_id(name, answer)
        self.transactions.add_offsets(name, {"errorCode": 0})

    def _verify(self, transactional_id, producer_id, epoch, partition):
        manager = self.coordinator.manager
        if any(manager.partition_for(each) == partition for each in manager.open_groups.get(producer_id, ())):
            return Errors.NONE  # as coordinator/player.py: the partition already contains the transaction
        return self.transactions.verify(transactional_id, producer_id, epoch, partition)

    def txncommit(self, producer, group, generation="-1", member="", instance=None, version="4", **offsets):
        producer_id, epoch = map(int, producer.split("/"))
        answer = self.coordinator.txn_offset_commit(
            group,
            _offsets(offsets),
            transactional_id=f"t{producer_id}",
            producer_id=producer_id,
            producer_epoch=epoch,
            generation=int(generation),
            member_id=member,
            group_instance_id=instance,
            supports_abortable_error=int(version) >= 4,
        )
        self._print_response(
            "txncommit",
            answer,
            texts.commits(offsets),
            [f"{partition}={offset}" for partition, offset in offsets.items()],
        )

    def marker(self, kind, producer, *groups):
        """Append a marker, COMMIT or ABORT, to the partitions of these groups."""
        producer_id, epoch = map(int, producer.split("/"))
        partitions = set(map(self.coordinator.manager.partition_for, groups))
        commits = kind == "COMMIT"
        for each in sorted(partitions):
            self.disk.append_marker(each, producer_id, epoch, commits=commits, timestamp=self.clock.now_ms)
        self.transactions.end_with_marker(producer_id)
        try:
            self.coordinator.transaction_completed(producer_id, partitions, commits=commits)
        except NotAppended as error:
            self._print(f"marker: {error}")

    def fetch(self, group, *partitions, stable="no"):
        """Send an OffsetFetch of these partitions, or of all."""
        named = [_partition(each) for each in partitions] or None
        self._print(
            f"fetch: {texts.fetch(self.coordinator.offset_fetch(group, named, require_stable=stable == 'yes').value)}"
        )

    def offsetdelete(self, group, *partitions):
        result = self.coordinator.offset_delete(group, list(map(_partition, partitions))).value
        self._print(
            f"offsetdelete: {texts.errors(result.partitions) if result.error is Errors.NONE else result.error.name}"
        )

    def epoch(self, epochs, asked, end):
        """Send OffsetForLeaderEpoch to a leader whose epochs are EPOCH:START,... and whose log ends at `end`."""
        starts = [tuple(map(int, each.split(":"))) for each in epochs.split(",")]
        self._print(f"epoch {asked}: {offset_for_leader_epoch(starts, int(end), int(asked))}")

    # Groups

    def describe(self, *groups):
        for each in self.coordinator.describe_groups(groups):
            self._print(f"describe {each.group_id or texts.EMPTY}: {texts.described(each)}")

    def list(self, states="", types=""):
        error, groups = self.coordinator.list_groups(
            [*filter(None, states.split(","))], [*filter(None, types.split(","))]
        )
        self._print(f"list: {texts.listed(error, groups)}")

    def delete(self, *groups):
        self._print(f"delete: {texts.deleted(self.coordinator.delete_groups(groups).value)}")

    def find(self, group):
        error, partition = self.coordinator.find_coordinator(group)
        self._print(f"find {group}: {error.name}, partition {partition}")

    def group(self, name):
        """Print the group in the cache, with its soft state."""
        self._print(f"group {name}: {texts.cached(self.coordinator.manager.get_group(name))}")

    def dead(self, name):
        """Put a Dead group into the cache, as Kafka's tests do. Without this, no Dead group outlives a request."""
        group = self.coordinator.manager.get_or_create(name)
        group.transition_to(ClassicState.DEAD, self.clock.now_ms)

    def cache(self):
        self._print(f"cache: {texts.cache(self.coordinator.manager)}")


def _partition(text):
    topic, partition = re.fullmatch(r"(.+?)-(-?\d+)", text).groups()
    return TopicPartition(topic, int(partition))


def _offsets(offsets, timestamp=-1):
    """OFFSET[@LEADER_EPOCH][:METADATA]"""
    commits = {}
    for partition, text in offsets.items():
        number, _, metadata = text.partition(":")
        offset, _, epoch = number.partition("@")
        repeated, star, times = metadata.partition("*")
        metadata = repeated * int(times) if star else metadata
        commits[_partition(partition)] = OffsetCommit(
            int(offset), None if metadata == "null" else metadata, int(epoch or -1), timestamp
        )
    return commits
