"""A broker of 4.x is killed at each step of its writes: nothing that a client was told is lost.

Three consumers join, read, commit, also in a transaction, give partitions back, leave and come back. Each append has
three steps: it is not in the log yet; it is, but no replica has confirmed it, so that the next leader has it or not;
and it is confirmed, but the client does not get the answer. The next coordinator loads the log, and the clients go on.
Where replicas are slow, they confirm the appends of a round together, so the clients go on while their answers wait.
"""

from collections import Counter

import pytest

import kafkagroups as kg
from kafkagroups.coordinator import DiskLogs, Errors, OffsetCommit, TopicPartition
from tests.cases import first_quickly
from tests.coordinator.test_consumers import World, poll_regularly

STEPS = ("before the append", "appended", "confirmed")
PAID = TopicPartition("orders", 4)
ROUNDS = 24
MARKER = ()
"""What a marker has in place of record types. The coordinator does not append it, but hears of it."""
MIN_KILLS = {0: 130, 3: 70}
"""How many kills there are at least, by the number of classic consumers: 200 in all for each version."""
TRANSACTION = {"transactional_id": "t", "producer_id": 7, "producer_epoch": 0}


class Killed(Exception):
    """The broker is gone."""


class FragileLogs(DiskLogs):
    """A log whose broker is killed at the step `kill_at`, counted from 1.

    With `loses_tail`, no replica has what was not confirmed until then. With `holds`, appends are confirmed by
    `confirm`. `steps` are those that were reached, each with the record types of the batch; the type of a tombstone is
    negative.
    """

    def __init__(self, folder, kill_at, *, loses_tail, holds):
        super().__init__(folder)
        self.kill_at = kill_at
        self.loses_tail = loses_tail
        self.holds = holds
        self.held = []
        self.steps = []

    def append(self, partition, batch, callback):
        kind = tuple(
            kg.decode(key, value).type if value is not None else -kg.decode(key, None).type
            for key, value in batch.records
        )
        self.reach("before the append", kind)
        size = self.size()
        answers = []
        super().append(partition, batch, lambda *answer: answers.append(answer))
        self.held.append((kind, size, callback, answers[0]))
        self.reach("appended", kind)
        if not self.holds:
            self.confirm()

    def confirm(self):
        while self.held:
            kind, _, callback, answer = self.held.pop(0)
            callback(*answer)
            self.reach("confirmed", kind)

    def lose_tail(self):
        if self.loses_tail and self.held:
            self.close()
            with self.segment().open("r+b") as file:
                file.truncate(self.held[0][1])

    def reach(self, step, kind):
        self.steps.append((step, kind))
        if len(self.steps) == self.kill_at:
            self.lose_tail()
            raise Killed

    def segment(self):
        return self.folder / "__consumer_offsets-0" / f"{0:020}.log"

    def size(self):
        for writer in self._writers.values():
            writer.flush()
        return self.segment().stat().st_size if self.segment().exists() else 0


class FragileWorld(World):
    """Consumers of the group `billing`, and the commits of the group `paid` in transactions."""

    def __init__(self, folder, version, classic, kill_at=None, *, loses_tail=False, holds=False):
        super().__init__(folder, version, assignor="range", classic=classic)
        self.logs = FragileLogs(folder, kill_at, loses_tail=loses_tail, holds=holds)
        self.coordinator = self.start()
        for consumer in self.consumers:
            consumer.coordinator = self.coordinator
        self.told = 0  # The offset that the group `paid` has for sure.
        self.asked = 0  # The newest offset that it can have.

    def live(self):
        """Let the clients do all they do. Raises Killed."""
        first, second, third = self.consumers
        for number in range(1, ROUNDS + 1):
            present = [first, second, third] if number > 6 else [first]
            for consumer in present:
                if (consumer, number) == (second, 16):
                    try:
                        consumer.leave()
                    finally:
                        consumer.crash()  # It waits for no answer.
                elif (consumer, number) == (second, 18):
                    consumer.start()
                consumer.poll()
                if number % 4 == 0:
                    consumer.commit()
            if number % 8 == 0:
                self.pay(number)
            self.logs.confirm()
            self.clock.advance(2_000)

    def pay(self, offset):
        self.asked = offset
        answer = self.coordinator.txn_offset_commit("paid", {PAID: OffsetCommit(offset)}, **TRANSACTION)
        self.logs.confirm()
        assert set(answer.value.values()) == {Errors.NONE}
        self.logs.append_marker(0, 7, 0, commits=True, timestamp=self.clock.now_ms)
        self.told = offset
        self.logs.reach("confirmed", MARKER)
        self.coordinator.transaction_completed(7, [0], commits=True)

    def check(self):
        """A new broker has all that the killed one had answered with NONE, and the clients go on without a fence."""
        confirmed = self.confirmed()
        self.logs.kill_at = None
        self.logs.holds = False
        self.logs.held.clear()
        members = [each for each in self.consumers if epoch_of(each) > 0 and each.state.name != "GONE"]
        before = [(epoch_of(each), set(each.assignment)) for each in members]
        self.crash()
        stored = self.stored()
        assert all(stored[each] >= offset for each, offset in confirmed.items())
        (paid,) = self.coordinator.offset_fetch("paid", [PAID]).value.offsets.values()
        assert self.told <= max(paid.offset, 0) <= self.asked
        for member, (epoch, partitions) in zip(members, before, strict=True):
            for _ in range(2):
                member.poll()
            assert epoch_of(member) >= epoch
            assert set(member.assignment) <= partitions or epoch_of(member) > epoch or not partitions
        poll_regularly(self.consumers, self.clock, 60_000, every_ms=1_000)
        for consumer in self.consumers:
            if consumer.state.name == "GONE":
                consumer.start()
        poll_regularly(self.consumers, self.clock, 60_000, every_ms=1_000)
        self.is_settled()


def epoch_of(consumer):
    """Return the member epoch; 0 for a classic consumer, whose rebalance a new broker does not know."""
    return getattr(consumer, "member_epoch", 0)


def kill_everywhere(tmp_path, version, classic, *, holds, every=1):
    """Kill a broker at each step, or at one of `every` steps; return the kinds of batches and the number of kills."""
    whole = FragileWorld(tmp_path / "whole", version, classic, holds=holds)
    whole.live()
    kills = Counter()
    for number, (step, _) in enumerate(whole.logs.steps, 1):
        if number % every:
            continue
        for loses_tail in (False, True) if holds or step == "appended" else (False,):
            folder = tmp_path / f"{number}-{loses_tail}"
            world = FragileWorld(folder, version, classic, number, loses_tail=loses_tail, holds=holds)
            with pytest.raises(Killed):
                world.live()
            world.check()
            kills[step] += 1
    assert set(kills) == set(STEPS)
    return {kind for _, kind in whole.logs.steps}, kills.total()


@pytest.mark.slow
@pytest.mark.parametrize("version", first_quickly(["4.3.1", "4.4.0"]))
@pytest.mark.parametrize("classic", [0, 3], ids=["consumer", "classic"])
def test_a_killed_broker_loses_nothing_that_it_answered(tmp_path, version, classic):
    kinds, kills = kill_everywhere(tmp_path, version, classic, holds=False)
    assert {(1,), MARKER} < kinds  # the steps of commits
    if classic == 0:  # a member joins, follows and leaves
        assert {(5, 3, 7, 6, 8), (8,), (-8, -7, -5, 3)} < kinds
    assert kills >= MIN_KILLS[classic]


@pytest.mark.slow
@pytest.mark.parametrize("version", first_quickly(["4.3.1", "4.4.0"]))
@pytest.mark.parametrize("classic", [0, 3], ids=["consumer", "classic"])
def test_a_broker_is_killed_while_several_appends_wait(tmp_path, version, classic):
    """All of them can be lost together, because no client has got an answer that rests on one of them."""
    _, kills = kill_everywhere(tmp_path, version, classic, holds=True, every=4)
    assert kills >= MIN_KILLS[classic] / 4
