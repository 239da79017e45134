"""What the history of a group shows: storms, skips, two writers, partitions that are not given back.

Most logs are written by a running coordinator, whose records are those of real brokers (tests/coordinator).
"""

import pytest

import kafkagroups as kg
from kafkagroups.coordinator import Clock, Consumer, OffsetCommit, Settings, TopicPartition, open_logs, start_broker
from tests.captured import captured

PARTITIONS = {"orders": 6}
START = 1_700_000_000_000
SECOND = 1000
MINUTE = 60 * SECOND
VERSIONS = ("3.9.2", "4.3.1")


class Group:
    """A classic group of consumers, all of which poll every four seconds."""

    def __init__(self, folder, version):
        self.clock = Clock(START)
        self.path = folder
        self.logs = open_logs(folder, Settings(version))
        self.coordinator = start_broker(self.logs, self.clock, Settings(version))
        self.rules = {"coordinator": "classic" if version < "4" else "new", "kafka": version}
        self.consumers = []

    def start(self, name, **options):
        consumer = Consumer(self.coordinator, "app", name, ["orders"], PARTITIONS, **options)
        self.consumers.append(consumer)
        return consumer

    def run(self, duration_ms):
        for _ in range(duration_ms // (4 * SECOND)):
            for consumer in self.consumers:
                consumer.poll()
            self.clock.advance(4 * SECOND)

    def find(self, engine):
        self.logs.close()
        events = [event for event in kg.timeline(self.path, "app", **self.rules).events if event.event == "storm"]
        found = findings(self.path, "rebalance_storm", engine, **self.rules)
        assert [finding.offset for finding in found] == [event.offset for event in events]
        return events, found


@pytest.fixture(params=["python", "compiled"])
def engine(request):
    """The findings do not depend on the engine."""
    return request.param


@pytest.fixture(params=VERSIONS)
def group(request, tmp_path):
    return Group(tmp_path, request.param)


def test_a_member_that_leaves_and_joins_again_is_named_with_its_own_time_outs(group, engine):
    """Each LeaveGroup and each JoinGroup of a member begins a rebalance (onLeaveGroup, 3.9.2)."""
    for name in ("a", "b"):
        group.start(name)
    slow = group.start("slow", session_timeout_ms=10_000)
    group.run(MINUTE)
    for _ in range(15):
        slow.leave()
        group.run(20 * SECOND)
        slow.start()
        group.run(20 * SECOND)
    (storm,), (finding,) = group.find(engine)
    assert "slow (127.0.0.1) joined 14 times with a new member id" in storm.what
    assert "its session timeout is 10000 ms, and that of the others 45000 ms" in storm.what
    assert finding.what.startswith(f"Group app: {storm.what[0].lower()}{storm.what[1:].removesuffix('.')}")
    assert "max.poll.interval.ms" in finding.remedy
    assert finding.command[:3] == ["kafkagroups", "timeline", f"{group.path}/__consumer_offsets-{finding.partition}"]


def test_a_leader_that_joins_again_keeps_the_members(group, engine):
    """A JoinGroup of the leader of a stable group begins a rebalance (doCurrentMemberJoinGroup, 3.9.2).

    It leads since the first generation, and two with the same members are usual after another one.
    """
    for name in ("a", "b"):
        group.start(name)
    group.run(MINUTE)
    leader = next(each for each in group.consumers if each.is_leader)
    for _ in range(40):
        leader._send_again()
        group.run(12 * SECOND)
    (storm,), (finding,) = group.find(engine)
    history = kg.timeline(group.path, "app", **group.rules)
    again = max(event.generation for event in history.events if event.generation) - 1
    assert storm.what.startswith(f"Rebalance storm: {again - 2} rebalances in ")
    assert f"in {again - 2} of them, the members stay the same; the last one: Generation" in storm.what
    assert "leader that joins again" in finding.remedy


def test_a_rolling_restart_and_a_job_that_starts_every_minute_are_no_storms(group, engine):
    """A deployment of twelve processes restarts each once; a job that is alone in its group disturbs nobody."""
    for number in range(12):
        group.start(f"c{number}")
    group.run(MINUTE)
    for consumer in group.consumers:
        consumer.leave()
        group.run(12 * SECOND)
        consumer.start()
        group.run(12 * SECOND)
    for consumer in group.consumers[1:]:
        consumer.leave()
    for _ in range(40):
        group.consumers[0].leave()
        group.run(12 * SECOND)
        group.consumers[0].start()
        group.run(48 * SECOND)
    assert group.find(engine) == ([], [])


def findings(path, kind, engine, **rules):
    return [finding for finding in kg.stats(path, **rules, engine=engine).findings if finding.kind == kind]


def test_a_jump_far_beyond_the_usual_steps_is_a_skip(engine):
    """Run 3.9.2-compaction: each group commits every 97 offsets, and a tool sets t-0 to 99999 at the end."""
    path = captured("runs") / "runs" / "3.9.2-compaction" / "before-clean"
    found = findings(path, "skipped_records", engine, coordinator="classic")
    assert {(each.group, each.topic_partition) for each in found} == {(f"k-{number}", "t-0") for number in range(8)}
    assert "t-0: 903 -> 99999, ahead by 99096; its longest step before was 97; no member is known" in found[0].what


@pytest.mark.parametrize("version", VERSIONS)
def test_skips_of_several_partitions_in_one_commit_are_one_finding_and_one_line(version, tmp_path, engine, run):
    """A consumer that finds its offsets out of range begins at the end of each partition, and commits them together."""
    clock = Clock(START)
    logs = open_logs(tmp_path, Settings(version, offsets_topic_num_partitions=1))
    coordinator = start_broker(logs, clock, Settings(version, offsets_topic_num_partitions=1))
    keys = [TopicPartition("orders", number) for number in range(3)]
    for step in [*range(12), 5000, 9000]:
        clock.advance(MINUTE)
        coordinator.offset_commit("app", {key: OffsetCommit(10 * step + key.partition) for key in keys})
    logs.close()
    rules = {"coordinator": "classic" if version < "4" else "new", "kafka": version}
    (finding,) = findings(tmp_path, "skipped_records", engine, **rules)
    skips = "orders-0 110 -> 50000, orders-1 111 -> 50001, orders-2 112 -> 50002"
    at = "2023-11-14 22:26:20 UTC"
    expected = f"at {at}: 3 partitions, ahead by 149670 together: {skips}; no member is known."
    assert finding.what == f"Group app has skipped records {expected}"
    events = kg.timeline(tmp_path, "app", **rules).events
    assert [(event.from_offset, event.to_offset) for event in events if event.event == "skip"] == [
        (110 + number, 50000 + number) for number in range(3)
    ]
    options = ["--coordinator", rules["coordinator"], "--kafka", version]
    _, out, _ = run("timeline", tmp_path, "--group", "app", *options)
    assert " ".join(out.split()).count(f"3 partitions, ahead by 149670 together: {skips}; no member is known.") == 1
    _, out, _ = run("timeline", tmp_path, "--group", "app", *options, "--all")
    assert " ".join(out.split()).count("its longest step before was 10") == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_two_programs_that_commit_in_turn_are_not_a_step_back(version, tmp_path, engine):
    """A Java consumer commits leader epochs, and many other clients do not (OffsetCommit v6)."""
    clock = Clock(START)
    logs = open_logs(tmp_path, Settings(version))
    coordinator = start_broker(logs, clock, Settings(version))
    key = TopicPartition("orders", 0)
    for number in range(8):
        coordinator.offset_commit("app", {key: OffsetCommit(5000 + 10 * number, "", 3)})
        clock.advance(SECOND)
        coordinator.offset_commit("app", {key: OffsetCommit(200 + 10 * number, "by hand", -1)})
        clock.advance(SECOND)
    logs.close()
    rules = {"coordinator": "classic" if version < "4" else "new", "kafka": version}
    (finding,) = findings(tmp_path, "two_writers", engine, **rules)
    assert (finding.group, finding.topic_partition) == ("app", "orders-0")
    assert (
        "two programs commit this offset in turn: one with leader epochs, without metadata is at 5070" in finding.what
    )
    assert "group id of its own" in finding.remedy


def test_a_member_that_keeps_a_partition_for_a_minute_is_found(tmp_path, engine):
    """It stays UnrevokedPartitions until its rebalance timeout (GroupMetadataManager, 4.3.1)."""
    topic_id = "Jlm7tiTSTTyzsN-NaMyQPQ"
    clock = Clock(START)
    world = {"topics": {"orders": 2}, "topic_ids": {"orders": topic_id}}
    settings = Settings("4.3.1", offsets_topic_num_partitions=1)
    logs = open_logs(tmp_path, settings)
    coordinator = start_broker(logs, clock, settings, **world)

    def send(member_id, epoch, **fields):
        return coordinator.consumer_group_heartbeat("app", member_id, epoch, **fields).value

    joining = {"topic_partitions": {}, "subscribed_topic_names": ("orders",), "rebalance_timeout_ms": 300_000}
    epoch = send("slow", 0, **joining).member_epoch
    clock.advance(2 * SECOND)
    send("fast", 0, **joining)
    for _ in range(30):
        send("slow", epoch, topic_partitions={topic_id: [0, 1]})
        clock.advance(3 * SECOND)
    coordinator.offset_commit("other", {TopicPartition("orders", 0): OffsetCommit(5)})
    logs.close()
    (finding,) = findings(tmp_path, "unrevoked_partition", engine, coordinator="new", kafka="4.3.1")
    assert finding.group == "app" and finding.topic_partition.startswith(f"{topic_id}-")
    assert f"has to give back {topic_id}-" in finding.what and "(after 5 min)" in finding.what


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_that_nobody_has_is_found_although_the_group_subscribes_to_its_topic(version, tmp_path, engine):
    """The leader assigns what its metadata show; here, the metadata of the new leader miss orders-1."""
    clock = Clock(START)
    logs = open_logs(tmp_path, Settings(version))
    coordinator = start_broker(logs, clock, Settings(version))

    def run(consumer, seconds):
        for _ in range(seconds):
            consumer.poll()
            consumer.commit()
            clock.advance(SECOND)

    first = Consumer(coordinator, "app", "old", ["orders"], {"orders": 2})
    run(first, 20)
    first.leave()
    second = Consumer(coordinator, "app", "new", ["orders"], {"orders": 1})
    run(second, 200)
    logs.close()
    rules = {"coordinator": "classic" if version < "4" else "new", "kafka": version}
    assert [each.what for each in findings(tmp_path, "unassigned_partition", engine, **rules)] == []
    run(second, 200)
    logs.close()
    (finding,) = findings(tmp_path, "unassigned_partition", engine, **rules)
    assert finding.what.startswith("Group app subscribes to orders, and no member has orders-1,")
    (line,) = kg.timeline(tmp_path, "app", **rules).waiting
    assert line.startswith("orders-1: no member has it, although the group subscribes to orders (committed: ")


@pytest.mark.parametrize(
    ("seconds", "kind"), [(0, None), (4, None), (20, "open_transaction"), (90, "hanging_transaction")]
)
@pytest.mark.parametrize("has_member", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_an_open_transaction_of_a_group_with_members_is_found_before_it_hangs(
    version, has_member, seconds, kind, tmp_path, engine
):
    """OffsetFetch with require_stable gets UNSTABLE_OFFSET_COMMIT from the pending commit on (GroupMetadataManager,
    3.9.2; OffsetMetadataManager, 4.3.1), and transaction.timeout.ms is 60 s by default.

    Without a later record, the log does not show that the transaction is open for long.
    """
    clock = Clock(START)
    settings = Settings(version, offsets_topic_num_partitions=1)
    logs = open_logs(tmp_path, settings)
    coordinator = start_broker(logs, clock, settings)
    key = TopicPartition("orders", 0)
    if has_member:
        consumer = Consumer(coordinator, "app", "c", ["orders"], PARTITIONS)
        for _ in range(3):
            consumer.poll()
            clock.advance(4 * SECOND)
    request = {"transactional_id": "t", "producer_id": 7, "producer_epoch": 0}
    coordinator.txn_offset_commit("app", {key: OffsetCommit(5)}, **request)
    if seconds:
        clock.advance(seconds * SECOND)
        coordinator.offset_commit("other", {key: OffsetCommit(6)})
    logs.close()
    rules = {"coordinator": "classic" if version < "4" else "new", "kafka": version}
    found = [each for each in kg.stats(tmp_path, **rules, engine=engine).findings if each.group == "app"]
    assert [each.kind for each in found] == ([kind] if kind and (has_member or seconds > 60) else [])
    if [each.kind for each in found] == ["open_transaction"]:
        assert "still open 20 s later" in found[0].what
        assert "not urgent" in found[0].remedy and "by default at 2023-11-14 22:1" in found[0].remedy


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_whose_members_gave_up_while_it_waited_is_blocked_too(version, tmp_path, engine):
    """The pod that took over waits for stable offsets and then leaves (incident 3 of the runbook's trial, 4.4.0)."""
    clock = Clock(START)
    settings = Settings(version, offsets_topic_num_partitions=1)
    logs = open_logs(tmp_path, settings)
    coordinator = start_broker(logs, clock, settings)
    coordinator.txn_offset_commit(
        "app", {TopicPartition("orders", 0): OffsetCommit(5)}, transactional_id="t", producer_id=7, producer_epoch=0
    )
    consumer = Consumer(coordinator, "app", "c", ["orders"], PARTITIONS)
    for _ in range(5):
        clock.advance(4 * SECOND)
        consumer.poll()
    consumer.leave()
    logs.close()
    rules = {"coordinator": "classic" if version < "4" else "new", "kafka": version}
    (finding,) = findings(tmp_path, "open_transaction", engine, **rules)
    assert finding.group == "app" and "consumers of app that start or get other partitions wait" in finding.remedy


@pytest.mark.parametrize("has_members", [True, False])
@pytest.mark.parametrize("groups", [["app"], ["app", "more"]])
@pytest.mark.parametrize("new_offset", [3, 90])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_that_was_created_again_is_found(version, new_offset, groups, has_members, tmp_path, engine):
    """The coordinator deletes the offsets of a deleted topic (onPartitionsDeleted), and 4.1 writes topic ids (KIP-848).

    Without ids, lower commits after the tombstones are a sign. OffsetDelete is refused for a topic to which a member
    subscribes (GROUP_SUBSCRIBED_TO_TOPIC), so there one group is enough; without members, a request can have deleted
    the offsets of one group.
    """
    clock = Clock(START)
    settings = Settings(version, offsets_topic_num_partitions=1)
    logs = open_logs(tmp_path, settings)
    keys = [TopicPartition("orders", 0), TopicPartition("orders", 1)]

    topic_ids = {"orders": "Jlm7tiTSTTyzsN-NaMyQPQ"}
    coordinator = start_broker(logs, clock, settings, topics={"orders": 2}, topic_ids=topic_ids)
    members = [Consumer(coordinator, group, "c", ["orders"], {"orders": 2}) for group in groups if has_members]
    for _ in range(3):
        for member in members:
            member.poll()
        clock.advance(4 * SECOND)

    def commit(offset):
        for number, group in enumerate(groups):
            identity = {}
            if has_members:
                identity = {"member_id": members[number].member_id, "generation": members[number].generation}
            coordinator.offset_commit(group, {key: OffsetCommit(offset) for key in keys}, **identity)
            clock.advance(SECOND)

    commit(80)
    coordinator.partitions_deleted(keys)
    topic_ids["orders"] = "5uQ2SNmWReyximm-_39NHQ"
    commit(new_offset)
    logs.close()
    rules = {"coordinator": "classic" if version < "4" else "new", "kafka": version}
    found = findings(tmp_path, "topic_created_again", engine, **rules)
    has_ids = version >= "4.1"
    assert len(found) == (has_ids or (new_offset < 80 and (has_members or len(groups) > 1)))
    for finding in found:
        assert finding.what.startswith("Topic orders was created again, at the latest at 2023-11-14 22:1")
        shown = "its id changed from Jlm7tiTSTTyzsN-NaMyQPQ to 5uQ2SNmWReyximm-_39NHQ" if has_ids else "are lower than"
        assert shown in finding.what and ", ".join(groups) in finding.what
        assert finding.group == ("app" if groups == ["app"] else None)
        assert "Do not set offsets of orders from before that time" in finding.remedy
