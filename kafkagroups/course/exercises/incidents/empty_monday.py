"""Incident 3: Friday's offsets are gone on Monday. The group was Empty for longer than the retention of offsets."""

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
HOUR_MS = 60 * MINUTE_MS
RETENTION_HOURS = 48
THURSDAY_MS = 1_772_668_800_000  # 2026-03-05 00:00 UTC
STEP = 10
"""The minutes between two heartbeats of a member. All times below are in minutes since Thursday at 00:00."""
BROKER_START = 6 * 60 + 4
"""The minute of this time decides when the broker looks for expired offsets: every ten minutes."""
FIRST_STEP = 6 * 60 + 10
BAKING = range(20 * 60, 30 * 60)
"""Bread is baked from Thursday at 20:00 to Friday at 06:00, and then no more until Monday."""
FRIDGES_OFF = 24 * 60 + 11 * 60
CLOSING = 24 * 60 + 18 * 60
OPENING = 4 * 24 * 60 + 7 * 60
END = OPENING + 60

CLOSED_GROUP = "bread-print"
"""Its members leave on Friday at 18:00, and come back on Monday at 07:00."""
OPEN_GROUP = "oven-sync"
"""Its member stays during the weekend, and commits nothing."""
WEEKEND_GROUP = "invoice-cache"
"""Its member stays, and commits every hour."""
NIGHTLY_GROUP = "label-view"
"""Its member joins at 02:00, commits, and leaves at 03:00."""
SIMPLE_GROUP = "receipt-stats"
"""It has no members, and commits every hour."""
PARTLY_IDLE_GROUP = "fridge-report"
"""It has no members, and commits every hour. Two of its four fridges are switched off on Friday at 11:00."""
PARTITIONS = {"bread": 4, "oven": 3, "invoice": 2, "label": 2}


def write(folder: Path, seed: int) -> None:
    """Run a broker from Thursday morning to Monday morning. All groups are in partition 30."""
    with IncidentLog(folder) as log:
        broker = start_broker(
            log.logs,
            KAFKA,
            now_ms=THURSDAY_MS + BROKER_START * MINUTE_MS + 11_000,
            topics=None,
            offsets_retention_ms=RETENTION_HOURS * HOUR_MS,
            group_initial_rebalance_delay_ms=0,
        )
        broker.start_expiration()
        shop = _Shop(broker, Random(seed))
        for minute in range(FIRST_STEP, END, STEP):
            broker.clock.advance_to(THURSDAY_MS + minute * MINUTE_MS)
            shop.run_step(minute)


class _Shop:
    def __init__(self, broker: GroupCoordinator, random: Random) -> None:
        self.broker = broker
        self.random = random
        self.bread = [
            make_consumer(self.broker, CLOSED_GROUP, 1, PARTITIONS),
            make_consumer(self.broker, CLOSED_GROUP, 2, PARTITIONS),
        ]
        self.oven = make_consumer(self.broker, OPEN_GROUP, 1, PARTITIONS)
        self.invoice = make_consumer(self.broker, WEEKEND_GROUP, 1, PARTITIONS)
        self.label = make_consumer(self.broker, NIGHTLY_GROUP, 1, PARTITIONS)
        self._join(*self.bread, self.oven, self.invoice)

    def run_step(self, minute: int) -> None:
        minute_of_day = minute % (24 * 60)
        if minute == CLOSING:
            for consumer in self.bread:
                consumer.leave()
        if minute == OPENING:
            for consumer in self.bread:
                consumer.start()
            self._join(*self.bread)
        if minute_of_day == 2 * 60:
            self.label.start()
            self._join(self.label)
        if minute_of_day == 3 * 60:
            self.label.leave()
        baked_records = 5 if minute in BAKING else 0
        for consumer in self.bread:
            self._poll(consumer, 30 if minute >= OPENING else baked_records)
        self._poll(self.oven, baked_records)
        self._poll(self.invoice, 5 if minute % 60 == 20 else 0)
        self._poll(self.label, 5 if minute_of_day == 2 * 60 + 40 else 0)
        if minute % 60 == 30:
            self._commit(SIMPLE_GROUP, range(3), minute)
            self._commit(PARTLY_IDLE_GROUP, range(4 if minute < FRIDGES_OFF else 2), minute)

    def _join(self, *consumers: Consumer) -> None:
        while not all(consumer.assignment for consumer in consumers):
            for consumer in consumers:
                consumer.poll(0)
            self.broker.clock.advance(1000)

    def _poll(self, consumer: Consumer, least_records: int) -> None:
        consumer.poll(self.random.randint(least_records, 2 * least_records))
        if least_records > 0:
            consumer.commit()

    def _commit(self, group: str, partitions: range, minute: int) -> None:
        topic = group.split("-")[0]
        offsets = {TopicPartition(topic, number): OffsetCommit(minute * 3 + number) for number in partitions}
        self.broker.offset_commit(group, offsets)


_HINTS = (
    "Find first when the offsets were deleted. Then ask what happened to the group some days before.",
    "`kafkagroups timeline . --group GROUP` shows the members, the deletions and their times. `kafkagroups stats .` "
    "lists the groups.",
    "Look at the lines without members and at the lines with a deletion, and compare their times. Then compare the "
    "timelines of the other groups.",
)

INCIDENT = Incident(
    number=3,
    name="empty_monday",
    level=1,
    title="On Monday all bread is printed again",
    kafka=KAFKA,
    complaint="""\
The group `bread-print` prints an order slip for each record of the topic `bread`. Its two members run while the bakery
is open. On Friday they were closed without an error. On Monday at 07:00 they started again, and printed every slip of
the topic once more.

`auto.offset.reset` is `earliest`, as it always was. The topic still has all its records, and no broker was restarted.
The old cluster never did this. We moved to the new cluster on Wednesday, so this was its first weekend. Other groups
had no trouble, or have not noticed it.
""",
    server_log=(
        "[2026-03-09 07:00:03,371] INFO [Consumer clientId=bread-print-1, groupId=bread-print] Found no committed "
        "offset for partition bread-0 (org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)",
        "[2026-03-09 07:00:03,384] INFO [Consumer clientId=bread-print-1, groupId=bread-print] Resetting offset for "
        "partition bread-0 to position FetchPosition{offset=0, offsetEpoch=Optional.empty, "
        "currentLeader=LeaderAndEpoch{leader=Optional[kafka-2:9092 (id: 2 rack: null)], epoch=0}}. "
        "(org.apache.kafka.clients.consumer.internals.SubscriptionState)",
    ),
    chart=Chart(
        "Printed order slips, for each hour",
        ("Thu 21:00", "Fri 01:00", "Fri 05:00", "Sat 05:00", "Sun 05:00", "Mon 07:00"),
        (176, 184, 181, 0, 0, 1090),
    ),
    questions=(
        Question(
            "When did the broker delete the offsets of `bread-print`? Answer with a text such as "
            '`"2026-03-07 09:15"`, in UTC.',
            Exercise(
                "monday_deleted_at",
                "2026-03-08 18:04",
                'monday_deleted_at = "2026-03-08 18:04"',
                _HINTS,
                known_mistakes={
                    "At this time the members left. Their offsets were still there.": "2026-03-06 18:00",
                    "At this time the members came back. The offsets were already gone.": "2026-03-09 07:00",
                },
            ),
        ),
        Question(
            "For how many hours does this broker keep the offsets of a group after its last member has left? The log "
            "tells it.",
            Exercise(
                "monday_hours",
                RETENTION_HOURS,
                f"monday_hours = {RETENTION_HOURS}",
                _HINTS,
                known_mistakes={
                    "This is Kafka's default, 7 days. The times in the log say something else.": 168,
                    "This is the time since the last commit. Since Kafka 2.1, the retention of a group with members "
                    "begins when the last member leaves.": 60,
                    "This is the time until the members came back. When were the offsets deleted?": 61,
                },
            ),
        ),
        Question(
            "One other group lost some of its offsets on the weekend, and kept the others. Which group?",
            Exercise(
                "monday_partial",
                PARTLY_IDLE_GROUP,
                f'monday_partial = "{PARTLY_IDLE_GROUP}"',
                _HINTS,
                known_mistakes={
                    "This group has no members either, but it committed each offset every hour.": SIMPLE_GROUP,
                    "This group has no members for 23 hours of each day. That is less than the retention.": (
                        NIGHTLY_GROUP
                    ),
                },
            ),
        ),
        Question(
            "One group committed its last offsets on Friday morning, and still has all of them. Which group?",
            Exercise(
                "monday_kept",
                OPEN_GROUP,
                f'monday_kept = "{OPEN_GROUP}"',
                _HINTS,
                known_mistakes={
                    "This group committed on the weekend too.": WEEKEND_GROUP,
                    "This group committed every night.": NIGHTLY_GROUP,
                },
            ),
        ),
    ),
    write=write,
    worked_solution=(
        Step(
            "The group was without members from Friday at 18:00. The broker deleted its offsets two days later.",
            f"kafkagroups timeline . --group {CLOSED_GROUP} --kafka 3.9.2",
            shows="2026-03-06 18:00",
            lines=11,
        ),
        Step(
            "A group that never had a member is a simple group. Each of its offsets expires two days after its own "
            "commit, if no newer commit comes.",
            f"kafkagroups timeline . --group {PARTLY_IDLE_GROUP} --kafka 3.9.2",
            shows="2026-03-08",
            lines=4,
        ),
        Step(
            "This group committed nothing on the weekend. But it has a member that subscribes to the topic, so its "
            "offsets do not expire.",
            f"kafkagroups load . --group {OPEN_GROUP} --kafka 3.9.2",
            shows=" group",
            lines=3,
        ),
    ),
    cause="`offsets.retention.minutes` of the new cluster is 2880, which is two days. The default is seven days. Since "
    "Kafka 2.1, the retention of a group begins when its last member leaves. The group was without members for 61 "
    "hours, from Friday at 18:00 to Monday at 07:00.",
    prevention=(
        "Set `offsets.retention.minutes` to more than the longest time for which a group may be stopped. The default "
        "of seven days is a good minimum.",
        "Compare the settings of all brokers before you move to a new cluster.",
        "Decide what `auto.offset.reset` should do without a committed offset. With `none`, a consumer stops with an "
        "error, and an operator decides.",
        "Alert if a group is Empty for longer than half of the retention.",
    ),
)
