"""Incident 4: lag alarms for a deleted group. A group of generation 0 has no group record, so it gets no tombstone."""

from __future__ import annotations

from pathlib import Path
from random import Random

from kafkagroups.coordinator import Consumer, GroupCoordinator, OffsetCommit, TopicPartition
from kafkagroups.course.broker import start_broker
from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.exercises.incidents.chart import Chart
from kafkagroups.course.exercises.incidents.incident import Incident, Question, Step
from kafkagroups.course.exercises.incidents.incident_consumers import make_consumer
from kafkagroups.course.exercises.incidents.incident_log import IncidentLog

KAFKA = "3.9.2"
MINUTE_MS = 60_000
START_MS = 1_772_434_800_000  # 2026-03-02 07:00 UTC
STEP = 20
"""The minutes between two steps. All times below are in minutes since the start, Monday at 07:00."""
DAY = 24 * 60
END = 9 * DAY + 120

DEAD_GROUP = "counter-copy"
"""A consumer group that was deleted on Tuesday. On Thursday, a script without members used its name again."""
FIRST_DELETION = DAY + 10 * 60
SCRIPT = range(3 * DAY + 120, 7 * DAY + 9 * 60)
DELETION = 8 * DAY + 10 * 60 + 40
DELETED_GROUPS = ("recipe-audit", "door-count")
"""Consumer groups. Their members left two days before the clean-up."""
LAST_DAY_OF_MEMBERS = 6 * DAY + 11 * 60 + 20
RETURNED_GROUP = "payment-view"
"""A consumer group that was deleted on Wednesday and came back an hour later."""
RETURNED_DELETION = 2 * DAY + 5 * 60
OFFSETS_DELETED_GROUP = "night-stats"
"""A group without members. The clean-up deletes its offsets of one of two topics."""
CONSUMER_GROUPS = ("order-alerts", "receipt-sync", "delivery-watch")
SIMPLE_GROUPS = ("stock-view", "supplier-sync", "kitchen-alerts")
PARTITIONS = {
    "counter": 3,
    "recipe": 2,
    "door": 4,
    "payment": 3,
    "order": 3,
    "receipt": 2,
    "delivery": 2,
    "stock": 3,
    "supplier": 1,
    "kitchen": 2,
    "night": 2,
    "light": 2,
}


def write(folder: Path, seed: int) -> None:
    """Run a broker for nine days. All groups are in partition 14."""
    with IncidentLog(folder) as log:
        broker = start_broker(log.logs, KAFKA, now_ms=START_MS, topics=None, group_initial_rebalance_delay_ms=0)
        shop = _Shop(broker, Random(seed))
        for minute in range(STEP, END, STEP):
            broker.clock.advance_to(START_MS + minute * MINUTE_MS)
            shop.run_step(minute)


class _Shop:
    def __init__(self, broker: GroupCoordinator, random: Random) -> None:
        self.broker = broker
        self.random = random
        self.members = {
            group: make_consumer(self.broker, group, 1, PARTITIONS)
            for group in (*CONSUMER_GROUPS, RETURNED_GROUP, *DELETED_GROUPS, DEAD_GROUP)
        }
        self._join(*self.members.values())

    def run_step(self, minute: int) -> None:
        self._use_first_life(minute)
        if minute == RETURNED_DELETION:
            self._leave_and_delete(RETURNED_GROUP)
        if minute == RETURNED_DELETION + 60:
            self.members[RETURNED_GROUP].start()
            self._join(self.members[RETURNED_GROUP])
        if minute == LAST_DAY_OF_MEMBERS:
            for group in DELETED_GROUPS:
                self.members[group].leave()
        for number, consumer in enumerate(self.members.values()):
            consumer.poll(self.random.randint(1, 40))
            if minute // STEP % 12 == number:
                consumer.commit()
        for number, group in enumerate(SIMPLE_GROUPS):
            if minute // STEP % 12 == number + 2:
                self._commit(group, group.split("-")[0], minute)
        if minute // STEP % 12 == 7:
            self._commit(OFFSETS_DELETED_GROUP, "night", minute)
            if minute < DELETION:
                self._commit(OFFSETS_DELETED_GROUP, "light", minute)
        if minute in SCRIPT and minute // STEP % 6 == 0:
            self._commit(DEAD_GROUP, "counter", minute)
        if minute == DELETION:
            self.broker.delete_groups([DELETED_GROUPS[0], DEAD_GROUP, DELETED_GROUPS[1]])
            lights = [TopicPartition("light", number) for number in range(PARTITIONS["light"])]
            self.broker.offset_delete(OFFSETS_DELETED_GROUP, lights)

    def _use_first_life(self, minute: int) -> None:
        if minute == 6 * 60:
            second = make_consumer(self.broker, DEAD_GROUP, 2, PARTITIONS)
            self._join(second, self.members[DEAD_GROUP])
            second.leave()
            self._join(self.members[DEAD_GROUP])
        if minute == FIRST_DELETION:
            self._leave_and_delete(DEAD_GROUP)

    def _leave_and_delete(self, group: str) -> None:
        self.members[group].leave()
        self.broker.delete_groups([group])

    def _join(self, *consumers: Consumer) -> None:
        for _ in range(4):
            for consumer in consumers:
                consumer.poll(0)
            self.broker.clock.advance(1000)

    def _commit(self, group: str, topic: str, minute: int) -> None:
        position = minute * 2 + self.random.randrange(STEP)
        offsets = {TopicPartition(topic, number): OffsetCommit(position) for number in range(PARTITIONS[topic])}
        self.broker.offset_commit(group, offsets)


_HINTS = (
    "The broker and the monitor read the same log. Ask which groups each of them takes from it, and which record tells "
    "the monitor that a group is gone.",
    "`kafkagroups load . --kafka 3.9.2` shows the groups of the broker. `kafkagroups stats .` lists all groups of the "
    "log. `kafkagroups timeline . --group GROUP` shows the deletions of a group.",
    "Compare how the timelines of the deleted groups end: with or without the deletion of the group itself.",
)

INCIDENT = Incident(
    number=4,
    name="lag_of_the_dead",
    level=2,
    title="A lag alarm for a group that does not exist",
    kafka=KAFKA,
    complaint="""\
On Tuesday at 17:40 we cleaned up. With `kafka-consumer-groups.sh` we deleted three groups that no one uses. Of a fourth
group we deleted the offsets of an old topic. The tool reported success for everything.

Our lag monitor reads `__consumer_offsets` itself. Its manual says: "A group appears with its first commit. It
disappears when its tombstone is read." The number of groups should have fallen from 11 to 8, but it fell to 9. Since
then, one group has a lag that grows every hour.

We deleted this group a second time. The tool answered that the group id does not exist. We restarted the monitor. It
read the topic from the start, and showed nine groups again. The clean-up of the week before worked. All our groups are
in partition 14.
""",
    server_log=(
        "[2026-03-10 18:00:00] lag-monitor: groups=9 (expected 8), groups above the limit=1",
        "[2026-03-11 08:00:00] lag-monitor: groups=9 (expected 8), groups above the limit=1",
    ),
    chart=Chart(
        "Groups that the monitor shows at 20:00",
        ("2 Mar", "3 Mar", "4 Mar", "5 Mar", "6 Mar", "7 Mar", "8 Mar", "9 Mar", "10 Mar"),
        (11, 10, 10, 11, 11, 11, 11, 11, 9),
    ),
    questions=(
        Question(
            "The monitor shows one group that no longer exists. Which group?",
            Exercise(
                "dead_group",
                DEAD_GROUP,
                f'dead_group = "{DEAD_GROUP}"',
                _HINTS,
                known_mistakes={
                    "This group was deleted too. Its last record is the tombstone of its group record, so the monitor "
                    "has removed it.": DELETED_GROUPS[0],
                    "This group was deleted too. The monitor has read the tombstone of its group record.": (
                        DELETED_GROUPS[1]
                    ),
                    "This group lost the offsets of one topic. It still has others, so it exists.": (
                        OFFSETS_DELETED_GROUP
                    ),
                    "This group was deleted, but it came back. Its members still commit.": RETURNED_GROUP,
                },
            ),
        ),
        Question(
            "The clean-up on Tuesday at 17:40 deleted three groups. For how many of them did the broker write the "
            "tombstone of a group record?",
            Exercise(
                "dead_group_tombstones",
                2,
                "dead_group_tombstones = 2",
                _HINTS,
                known_mistakes={
                    "Each of the three groups has tombstones of its offsets. Does each have one with the key "
                    "GroupMetadata, too?": 3,
                    "These are the tombstones of offsets. A group record has another key.": 11,
                    "These are all tombstones of the clean-up. Most of them are tombstones of offsets.": 13,
                },
            ),
        ),
        Question(
            "In which generation was the dead group when the clean-up deleted it?",
            Exercise(
                "dead_generation",
                0,
                "dead_generation = 0",
                _HINTS,
                known_mistakes={
                    "This was its generation at its first deletion, a week before. After that, the group began again "
                    "without members.": 4,
                    "A client without a member sends -1. The group itself counts its generations from 0.": -1,
                },
            ),
        ),
    ),
    write=write,
    worked_solution=(
        Step(
            "List the groups that a broker has after the clean-up. There are eight.",
            "kafkagroups load . --kafka 3.9.2",
            shows=" group",
            lines=10,
        ),
        Step(
            "The log has records of eleven groups. Three of them are not in the first list.",
            "kafkagroups stats .",
            shows=" group",
            lines=13,
        ),
        Step(
            "This is how a deletion normally ends: the tombstones of the offsets, then the tombstone of the group.",
            f"kafkagroups timeline . --group {DELETED_GROUPS[0]} --kafka 3.9.2",
            shows="2026-03-10",
            lines=6,
        ),
        Step(
            "This group was deleted twice. After the first deletion, no member joined: there are commits, but no "
            "generation. The second deletion wrote three tombstones of offsets, and none of a group record.",
            f"kafkagroups timeline . --group {DEAD_GROUP} --kafka 3.9.2",
            shows="2026-03-03 17:00",
            lines=18,
        ),
    ),
    cause="After the first deletion, a client without a member committed under the same group id. This made a simple "
    "group of generation 0, and a broker stores no group record for it. So the classic coordinator of Kafka 3.9.2 "
    "wrote no tombstone of a group record at the second deletion. The monitor waits for this tombstone.",
    prevention=(
        "A monitor must remove an offset when it reads the offset's tombstone, and a group that has no offset left.",
        "Compare the groups of a monitor with ListGroups from time to time.",
        "Give each program a group id of its own, and do not use the id of a deleted group again.",
        "The new coordinator of Kafka 4.x also writes the tombstone for a simple group (lesson 09).",
    ),
)
