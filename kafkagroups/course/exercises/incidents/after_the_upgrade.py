"""Incident 5: offsets are gone after an upgrade. Old commits have an expire timestamp, and the brokers were off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from kafkagroups.coordinator import Consumer, GroupCoordinator, OffsetCommit
from kafkagroups.course.broker import start_broker
from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.exercises.incidents.chart import Chart
from kafkagroups.course.exercises.incidents.incident import Incident, Question, Step
from kafkagroups.course.exercises.incidents.incident_log import IncidentLog
from kafkagroups.groups.offsets import TopicPartition

KAFKA = "2.8.2"
OLD_KAFKA = "1.0.1"
MAIL_GROUP = "loyalty-mail"
KEPT_GROUP = "order-sync"
LONG_GROUP = "voucher-print"
DELETED_GROUP = "till-board"
LOST_GROUPS = (MAIL_GROUP, "stock-copy", "waste-print")

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
START_MS = 1_772_604_000_000  # Wednesday, 2026-03-04 06:00 UTC
STOP_MS = START_MS + 62 * HOUR_MS  # Friday 20:00
UPGRADED_MS = START_MS + 120 * HOUR_MS  # Monday 06:00
END_MS = UPGRADED_MS + 3 * HOUR_MS
TEN_YEARS_MS = 3650 * DAY_MS
QUIET_MS = STOP_MS - 5 * HOUR_MS
_SESSION_MS = 5 * MINUTE_MS
_HEARTBEAT_MS = 2 * MINUTE_MS
_STEP_MS = 10 * MINUTE_MS


def write(folder: Path, seed: int) -> None:
    """Write partition 44: three days on Kafka 1.0.1, a weekend without brokers, and a morning on Kafka 2.8.2."""
    random = Random(seed)
    with IncidentLog(folder) as log:
        old = start_broker(log.logs, OLD_KAFKA, now_ms=START_MS, topics=None, offsets_retention_ms=DAY_MS)
        shop = _Shop(old, random)
        shop.run(START_MS, STOP_MS).leave()
        new = start_broker(log.logs, KAFKA, now_ms=UPGRADED_MS, topics=None)
        new.start_expiration(_STEP_MS)
        shop.broker = new
        shop.positions |= dict.fromkeys(LOST_GROUPS, 0)
        shop.run(UPGRADED_MS, END_MS)


class _Shop:
    """The services of the shop, as clients of one coordinator."""

    def __init__(self, broker: GroupCoordinator, random: Random) -> None:
        self.broker = broker
        self.random = random
        self.positions: dict[str, int] = {}

    def run(self, start_ms: int, end_ms: int) -> Consumer:
        clock = self.broker.clock
        member = self._start(KEPT_GROUP, {"orders": 3, "refunds": 1})
        for now_ms in range(start_ms + _STEP_MS // 2, end_ms, _STEP_MS):
            clock.advance_to(now_ms)
            for work in self._plan(now_ms):
                name, *topics = work
                if name == KEPT_GROUP:
                    self._commit(name, topics, member)
                elif name in (MAIL_GROUP, "waste-print", "milk-map"):
                    self._run_job(name, topics)
                elif name == DELETED_GROUP and not topics:
                    self.broker.delete_groups([name])
                else:
                    self._commit(name, topics)
                clock.advance(self.random.randrange(200, 2000))
            while clock.now_ms < now_ms + _STEP_MS:
                clock.advance_to(min(clock.now_ms + _HEARTBEAT_MS, now_ms + _STEP_MS))
                member.poll(0)
        return member

    def _plan(self, now_ms: int) -> Iterator[tuple[str, ...]]:
        hour, minute = divmod(now_ms % DAY_MS // MINUTE_MS, 60)
        is_old = now_ms < STOP_MS
        yield KEPT_GROUP, "orders-0", "orders-1", "orders-2"
        if 0 <= now_ms - QUIET_MS < _STEP_MS:
            yield KEPT_GROUP, "refunds-0"
        if minute == 5:
            yield "cake-view", "cakes-0", "cakes-1"
        if minute == 5 and (is_old or hour < 8):
            yield DELETED_GROUP, "receipts-0"
        if minute == 35 and (is_old or hour >= 8):
            yield "stock-copy", "stock-0", "stock-1"
        if minute == 25 and hour in (7, 19):
            yield MAIL_GROUP, "members-0", "members-1"
        if minute == 15 and hour in (8, 18):
            yield "waste-print", "waste-0"
        if minute == 5 and hour in (6, 14):
            yield "milk-map", "milk-0"
        if minute == 45 and hour == 12 and is_old:
            yield LONG_GROUP, "vouchers-0"
        if (hour, minute) == (7, 55) and not is_old:
            yield (DELETED_GROUP,)

    def _start(self, group: str, topics: dict[str, int]) -> Consumer:
        consumer = Consumer(
            self.broker,
            group,
            f"{group}-1",
            tuple(topics),
            topics,
            session_timeout_ms=_SESSION_MS,
            protocol_version=0,
        )
        while not consumer.assignment:
            consumer.poll(0)
            self.broker.clock.advance(1000)
        return consumer

    def _run_job(self, group: str, partitions: list[str]) -> None:
        topic = TopicPartition.parse(partitions[0]).topic
        member = self._start(group, {topic: len(partitions)})
        self._commit(group, partitions, member)
        self.broker.clock.advance(20_000)
        member.leave()

    def _commit(self, group: str, partitions: list[str], member: Consumer | None = None) -> None:
        position = self.positions.get(group, 20_000) + self.random.randint(1, 40)
        self.positions[group] = position
        offsets = {TopicPartition.parse(name): OffsetCommit(position) for name in partitions}
        if member is not None:
            member.request_commit(offsets)
        else:
            retention_ms = TEN_YEARS_MS if group == LONG_GROUP else -1
            self.broker.offset_commit(group, offsets, retention_ms=retention_ms)


_HINTS = (
    "Compare an offset that was lost with an offset that was kept. What is different in their last commits?",
    "`kafkagroups timeline . --group GROUP --kafka 2.8.2 --retention 7d` shows why an offset was deleted. "
    "`kafkagroups dump PARTITION --group GROUP --json` shows every field of a value.",
    "In the output of `dump --json`, compare `version` and `expireTimestamp` of the last value before the tombstone.",
)

INCIDENT = Incident(
    number=5,
    name="after_the_upgrade",
    level=2,
    title="Offsets are gone after the upgrade",
    kafka=KAFKA,
    complaint="""\
We upgraded the brokers from Kafka 1.0.1 to 2.8.2. All brokers were off from Friday 20:00 to Monday 06:00. On Monday
morning, `loyalty-mail` sent 31,245 mails: every mail of the last weeks again. Other services of the same partition
also began at the start of their topics, but not all of them.

`offsets.retention.minutes` is the default of the new version: 7 days. The brokers were off for less than three days.
The mail service has run twice a day for four years, on weekends too, and it never lost an offset. Restarting the
service did not help. At 07:55 we stopped another service and deleted its group, because we suspected it.
""",
    server_log=(
        "[2026-03-09 06:00:00,713] INFO Kafka version: 2.8.2 (org.apache.kafka.common.utils.AppInfoParser)",
        "[2026-03-09 07:25:12,412] INFO [Consumer clientId=loyalty-mail-1, groupId=loyalty-mail] "
        "Resetting offset for partition members-0 to offset 0. (org.apache.kafka.clients.consumer.internals.Fetcher)",
    ),
    chart=Chart(
        "Mails of loyalty-mail in each run",
        ("Wed 07", "Wed 19", "Thu 07", "Thu 19", "Fri 07", "Fri 19", "Mon 07"),
        (412, 388, 405, 397, 420, 401, 31_245),
    ),
    questions=(
        Question(
            "How many groups lost offsets on Monday although no request deleted them?",
            Exercise(
                "upgrade_lost_groups",
                len(LOST_GROUPS),
                f"upgrade_lost_groups = {len(LOST_GROUPS)}",
                _HINTS,
                known_mistakes={
                    "One of these groups was deleted by a request at 07:55. `timeline` shows the cause of each "
                    "deletion.": len(LOST_GROUPS) + 1,
                    "This is the number of lost offsets. The question is about groups.": 5,
                },
            ),
        ),
        Question(
            "What is the value version of the lost commits?",
            Exercise(
                "upgrade_version",
                1,
                "upgrade_version = 1",
                _HINTS,
                known_mistakes={
                    "This is the version of the commits after the upgrade. Look at the records before the "
                    "tombstones.": 3,
                    "Only Kafka 0.8.2 writes version 0. The version is in the first two bytes of a value.": 0,
                },
            ),
        ),
        Question(
            "When did the lost offset of `members-0` of `loyalty-mail` expire? "
            'Write the minute as a text such as `"2026-03-01 12:00"`, in UTC.',
            Exercise(
                "upgrade_expiry",
                "2026-03-07 19:25",
                'upgrade_expiry = "2026-03-07 19:25"',
                _HINTS,
                known_mistakes={
                    "This is the time of the commit. Read its expire timestamp.": "2026-03-06 19:25",
                    "At this time, the broker deleted the offset. The question is when the offset expired.": (
                        "2026-03-09 06:10"
                    ),
                    "This is 7 days after the commit. The retention in `server.properties` does not count for a "
                    "commit with an expire timestamp.": "2026-03-13 19:25",
                },
            ),
        ),
        Question(
            "One group still has an offset whose expire timestamp was over on Monday. Which group?",
            Exercise(
                "upgrade_kept_group",
                KEPT_GROUP,
                f'upgrade_kept_group = "{KEPT_GROUP}"',
                _HINTS,
                known_mistakes={
                    "The expire timestamp of this group is ten years after its commit.": LONG_GROUP,
                    "This group committed again after the upgrade. The new commits have no expire timestamp.": (
                        "cake-view"
                    ),
                },
            ),
        ),
    ),
    write=write,
    worked_solution=(
        Step(
            "`stats --by type` shows the value versions. The commits before the weekend have version 1, and the new "
            "commits have version 3.",
            "kafkagroups stats . --kafka 2.8.2 --by type",
            shows=" type          version",
            lines=6,
        ),
        Step(
            "The history of the mail service shows why the offsets were deleted: they expired, after 24 hours and not "
            "after 7 days.",
            f"kafkagroups timeline . --group {MAIL_GROUP} --kafka 2.8.2 --retention 7d --since-time 2026-03-09",
            lines=6,
        ),
        Step(
            "Load the log as it was before the first check. Five offsets of three groups have an expire time that is "
            "over. The last group of the table asked for ten years.",
            "kafkagroups load . --kafka 2.8.2 --until-time 2026-03-09T06:09",
            shows=" group         expiring",
            lines=8,
        ),
        Step(
            "One more offset has an old expire time, but its group has a member that subscribes to the topic. So the "
            "offset does not expire.",
            f"kafkagroups explain . --group {KEPT_GROUP} --topic refunds --kafka 2.8.2 --since-time 2026-03-06T15:00",
            lines=13,
        ),
        Step(
            "The fourth deleted group had a new commit without an expire timestamp. It did not expire: a request "
            "deleted it at 07:55.",
            f"kafkagroups timeline . --group {DELETED_GROUP} --kafka 2.8.2 --retention 7d --since-time 2026-03-09",
        ),
    ),
    cause="From Kafka 0.9 to 2.0, every commit has value version 1, with an expire timestamp. Here it is one day after "
    "the commit, the default of Kafka 1.0.1. An upgrade does not change old records. Most old commits expired on "
    "Saturday, while the brokers were off. Ten minutes after the start, the new brokers deleted the offsets of groups "
    "that had no member and no new commit.",
    prevention=(
        "Before you stop the old brokers, raise `offsets.retention.minutes`, and wait until every group has committed "
        "again. Only new commits get a later expire timestamp.",
        "Upgrade broker by broker. Then the services go on, and their commits stay new.",
        "Before the stop, save the offsets of all groups with `kafka-consumer-groups.sh` and `--export` (lesson 09).",
        "Do not upgrade to Kafka 2.1.0 or 2.1.1. With an older `inter.broker.protocol.version`, they write the expire "
        "timestamp -1. After a restart, they delete these offsets (KAFKA-8069).",
    ),
)
