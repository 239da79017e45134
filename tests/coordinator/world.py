"""A broker under test: a log whose answers can wait or fail, and the state that it must have.

`Ledger` computes what must be committed and pending, only from the appends and their answers. `World.differences`
compares the living coordinator with one that loads its log. A position in the log is *disputed* while the two may
disagree about the commit at that position. docs/live-and-loaded.md lists the reasons.
"""

import shutil
from collections import defaultdict
from dataclasses import dataclass, field

import kafkagroups as kg
from kafkagroups.coordinator import (
    Clock,
    Errors,
    GroupMetadataManager,
    HeldLogs,
    Settings,
    TopicPartition,
    open_logs,
    start_broker,
)
from kafkagroups.coordinator.classic_members import write_assignment as write_assignment
from kafkagroups.coordinator.coordinator import number_member_ids
from kafkagroups.coordinator.simulated_consumers import (
    write_subscription as write_subscription,
)
from kafkagroups.groups.group import ClassicState, Member
from kafkagroups.groups.living_groups import ClassicGroup, NotAppended as NotAppended
from tests.handmade import ConsumerProtocolSubscription, GroupMetadataKey, VersionedMessage, encode_versioned

NOW = 1_700_000_000_000
WRITTEN = (ClassicState.STABLE, ClassicState.EMPTY)
"""The states that a record contains."""


SMALL_SEGMENT = 600
"""The bytes of a segment in a log that is cleaned, so that there is always something to clean."""


def clean(disk, now_ms, delete_retention_ms):
    """Run the log cleaner over partition 0, as a broker does beside its coordinator; the last segment stays."""
    folder = disk.folder / "__consumer_offsets-0"
    disk.close()
    if folder.is_dir():
        out = disk.folder / "cleaned" / folder.name
        kg.compact(folder, out, kg.CleanerConfig(now_ms=now_ms, delete_retention_ms=delete_retention_ms))
        shutil.rmtree(folder)
        out.rename(folder)


def subscription(*topics):
    """Return the bytes of a consumer's subscription."""
    return encode_versioned(VersionedMessage(1, ConsumerProtocolSubscription(topics=topics)))


def note_changes(patch):
    """Return a list that gets the states of a classic group before and after each change, until `patch` is undone."""
    changes = []
    transition_to = ClassicGroup.transition_to

    def note(group, state, now_ms):
        before = group.state
        transition_to(group, state, now_ms)
        changes.append((before.value, state.value))

    patch.setattr(ClassicGroup, "transition_to", note)
    return changes


@dataclass(eq=False)
class Ledger:
    """The offsets that one group must have, each as (position in the log, offset). Position None: no answer yet."""

    committed: dict = field(default_factory=dict)
    pending: dict = field(default_factory=dict)
    transactions: dict = field(default_factory=dict)

    def sent(self, producer, offsets):
        if producer == -1:
            self.pending.update(offsets)
        else:
            self.transactions.setdefault(producer, {}).update({each: (None, it) for each, it in offsets.items()})

    def answered(self, producer, offsets, error, position):
        for each, offset in offsets.items():
            waiting = self.transactions.get(producer, {})
            if producer == -1:
                if error is Errors.NONE and each in self.pending:
                    self._put(each, (position, offset))
                if self.pending.get(each) == offset:
                    del self.pending[each]
            elif error is not Errors.NONE:
                waiting.pop(each, None)
                if not waiting:
                    self.transactions.pop(producer, None)
            elif each in waiting and waiting[each][1] == offset:
                waiting[each] = (position, offset)

    def ended(self, producer, commits):
        for each, there in self.transactions.pop(producer, {}).items():
            if commits:
                self._put(each, there)

    def removed(self, partitions):
        for each in partitions:
            for offsets in (self.committed, self.pending, *self.transactions.values()):
                offsets.pop(each, None)

    def expired(self, partitions):
        for each in partitions:
            self.committed.pop(each, None)

    def _put(self, each, there):
        if each not in self.committed or self.committed[each][0] < there[0]:
            self.committed[each] = there


@dataclass(eq=False)
class Append:
    """One append: its group, its records, and its position in the log (None: it was refused)."""

    group: object
    group_id: str
    producer: int
    offsets: dict
    tombstones: list
    writes_group: bool
    position: int | None = None


class World:
    """A broker with one partition of the offsets topic, where `topics` exist. `logs` holds and fails its appends."""

    def __init__(self, folder, version, topics, **options):
        self.clock = Clock(NOW)
        self.topics = dict(topics)
        self.new_member_id = number_member_ids()
        self.settings = Settings(version, offsets_topic_num_partitions=1, **options)
        self.logs = HeldLogs(open_logs(folder, self.settings, on_append=self._written), holds_answers=False)
        self.appends = []
        self.start()

    def start(self):
        """Start a broker and load its log; requests to the broker before it get no response any more."""
        self.clock.clear_timers()
        self.logs.held_appends.clear()
        self.logs.holds_answers = False
        self.logs.append_error = Errors.NONE
        self.coordinator = start_broker(
            self, self.clock, self.settings, topics=self.topics, new_member_id=self.new_member_id
        )
        self.elect()

    def elect(self, epoch=0):
        """Lead the partition. No offset that comes from the log is disputed."""
        self.coordinator.elect(0, epoch)
        self.ledgers = defaultdict(Ledger)
        self.disputed = defaultdict(set)  # positions, by group id and topic-partition
        self.void = set()  # positions of commits that were removed before they counted
        self.unsure = set()  # ids of groups whose last record is not what the group is
        for group in self.groups():
            self.ledgers[group].committed = positions(group.offsets.committed)
            self.ledgers[group].transactions = {
                producer: positions(there) for producer, there in group.offsets.transactions.items()
            }

    def groups(self):
        return self.coordinator.manager.current_groups()

    def group(self, group_id):
        return self.coordinator.manager.get_group(group_id)

    def remove(self, group, partitions):
        """Note that these offsets were deleted, also the unfinished ones."""
        ledger = self.ledgers[group]
        for each in partitions:
            waiting = {there[each][0] for there in ledger.transactions.values() if each in there}
            self._doubt(group.group_id, each, waiting | self.disputed[group.group_id, each])
        ledger.removed(partitions)

    def _doubt(self, group_id, partition, positions):
        """Note that live and loaded may disagree about the commits at these positions, whatever the answer."""
        self.disputed[group_id, partition] |= positions - {None}
        self.void |= positions - {None}

    # The coordinator's log

    def magic(self, partition):
        return self.logs.magic(partition)

    def read(self, partition):
        return self.logs.read(partition)

    def append(self, partition, batch, appended):
        made = self._append(batch)
        self.appends.append(made)
        ledger = self.ledgers[made.group]
        if made.offsets:
            replaced = ledger.transactions.get(made.producer, {})
            for each in made.offsets.keys() & replaced.keys():  # should this one fail, the other one is forgotten too
                self._doubt(made.group_id, each, {replaced[each][0]} | self.disputed[made.group_id, each])
            ledger.sent(made.producer, made.offsets)

        def answered(error, offset):
            self._answered(made, error)
            appended(error, offset)

        committed = dict(ledger.committed)
        self.logs.append(partition, batch, answered)
        if made.position is None and (made.tombstones or made.writes_group):
            self.unsure.add(made.group_id)
            for each in made.tombstones:
                self._doubt(made.group_id, each, {committed[each][0]})

    def _append(self, batch):
        made = Append(None, "", batch.producer_id, {}, [], False)
        for key, value in batch.records:
            record = kg.decode(key, value, self.coordinator.manager.dialect)
            made.group_id = record.key.group
            if isinstance(record.key, GroupMetadataKey):
                made.writes_group = True
            elif value is None:
                made.tombstones.append(TopicPartition(record.key.topic, record.key.partition))
            else:
                made.offsets[TopicPartition(record.key.topic, record.key.partition)] = record.value.offset
        ledger_groups = [each for each in self.ledgers if each.group_id == made.group_id]
        made.group = self.group(made.group_id) or ledger_groups[-1]  # A deleted group is no longer in the cache.
        return made

    def _written(self, partition, first, last):
        made = self.appends[-1] if self.appends else None
        if made is not None and made.position is None:
            made.position = first
            for each in made.offsets:
                self.disputed[made.group_id, each].add(first)

    def _answered(self, made, error):
        if made.group is None or made.group.state is ClassicState.DEAD:
            return
        if made.offsets:
            if error is not Errors.NONE and made.producer != -1:  # it takes a later one of the same partition with it
                waiting = self.ledgers[made.group].transactions.get(made.producer, {})
                for each in made.offsets.keys() & waiting.keys():
                    self._doubt(made.group_id, each, {waiting[each][0]} | self.disputed[made.group_id, each])
            self.ledgers[made.group].answered(made.producer, made.offsets, error, made.position)
            if error is Errors.NONE and made.position not in self.void:
                for each in made.offsets:
                    self.disputed[made.group_id, each].discard(made.position)
        if made.writes_group:
            (self.unsure.discard if error is Errors.NONE else self.unsure.add)(made.group_id)

    # Live and loaded

    def loaded(self):
        """Return the groups of a coordinator that starts on this log now."""
        manager = GroupMetadataManager(self.settings, self.logs, Clock(self.clock.now_ms))
        manager.load_partition(0)
        return manager.groups

    def differences(self):
        """Return what the living and the loaded coordinator disagree about without a reason."""
        loaded = self.loaded()
        found = []
        live = {group.group_id: group for group in self.groups()}
        for group_id in live.keys() | loaded.keys():
            mine = live.get(group_id)
            theirs = loaded.get(group_id)
            found += self._offsets_that_differ(group_id, mine, theirs)
            if group_id in self.unsure:
                continue
            if mine is None:
                found += (
                    [] if theirs.generation == 0 and not undisputed(theirs, self.disputed) else [(group_id, "loaded")]
                )
            elif theirs is None:
                is_written = mine.state in WRITTEN and mine.generation > 0
                found += [(group_id, "live")] if is_written or undisputed(mine, self.disputed) else []
            elif mine.state in WRITTEN and membership(mine) != membership(theirs):
                found.append((group_id, membership(mine), membership(theirs)))
        return found

    def _offsets_that_differ(self, group_id, mine, theirs):
        found = []
        mine = entries(mine)
        theirs = entries(theirs)
        for key in mine.keys() | theirs.keys():
            there = theirs.get(key)
            here = mine.get(key)
            doubts = self.disputed[group_id, key[1]]
            if here != there and not any(each is not None and each[0] in (*doubts, None) for each in (here, there)):
                found.append((group_id, key, here, there))
        return found


def positions(offsets):
    """Return offsets in the form of the ledger."""
    return {each: (None if it.batch_offset == -1 else it.batch_offset, it.offset) for each, it in offsets.items()}


def entries(group):
    """Return all committed and pending offsets, by (producer or None, partition)."""
    if group is None:
        return {}
    found = {(None, each): there for each, there in positions(group.offsets.committed).items()}
    for producer, waiting in group.offsets.transactions.items():
        found |= {(producer, each): there for each, there in positions(waiting).items()}
    return found


def undisputed(group, disputed):
    """Return the offsets of a group that the log and the memory must agree about."""
    return {
        key: there
        for key, there in entries(group).items()
        if there[0] is not None and there[0] not in disputed[group.group_id, key[1]]
    }


def membership(group):
    members = {}
    for member_id, member in group.members.items():
        fields = {name: value for name, value in vars(member).items() if name in Member.__dataclass_fields__}
        subscription = member.find_metadata(group.protocol) if group.protocol else b""
        members[member_id] = Member(**fields, subscription_bytes=subscription, assignment_bytes=member.assignment)
    if group.generation == 0:
        return group.state, 0, members
    return group.state, group.generation, group.protocol_type or "", group.protocol, group.leader, members
