"""What the history of a group shows: storms, skips, two writers, partitions that are not given back."""

import pytest

import kafkagroups as kg
from kafkagroups.coordinator import ConsumerProtocolConsumer, OffsetCommit, TopicPartition
from tests.captured import captured
from tests.groups.test_load_runs import DATA
from tests.handmade import (
    TRANSACTIONAL,
    LogRecord,
    classic_member,
    commit_record,
    encode_batch,
    generation,
    write_batches,
    write_segment,
)
from tests.history.logs import ENGINES, MINUTE, SECOND, START, VERSIONS, Broker, find

TOPIC_ID = "Jlm7tiTSTTyzsN-NaMyQPQ"


@pytest.fixture(params=VERSIONS)
def broker(request, tmp_path):
    return Broker(tmp_path, request.param)


def find_storms(broker):
    """Return the storms as events of the timeline, and as findings."""
    events = [event for event in broker.timeline().events if event.event == "storm"]
    found = broker.find("rebalance_storm")
    assert [finding.offset for finding in found] == [event.offset for event in events]
    return events, found


def restart(broker, consumer, others, stays_away):
    """Let a consumer leave, and join again after some polls of the others."""
    consumer.leave()
    broker.poll(*others, times=stays_away)
    consumer.start()


def test_a_member_that_leaves_and_joins_again_is_named_with_its_own_time_outs(broker):
    """Each LeaveGroup and each JoinGroup of a member begins a rebalance (onLeaveGroup, 3.9.2)."""
    consumers = [broker.join("a"), broker.join("b"), broker.join("slow", session_timeout_ms=10_000)]
    broker.poll(*consumers, times=15)
    for _ in range(15):
        restart(broker, consumers[2], consumers, 5)
        broker.poll(*consumers, times=5)
    (storm,), (finding,) = find_storms(broker)
    assert "slow (127.0.0.1) joined 14 times with a new member id" in storm.what
    assert "its session timeout is 10000 ms, and that of the others 45000 ms" in storm.what
    assert finding.what.startswith(f"Group app: {storm.what[0].lower()}{storm.what[1:].removesuffix('.')}")
    assert "max.poll.interval.ms" in finding.remedy
    assert finding.command[:3] == ["kafkagroups", "timeline", f"{broker.path}/__consumer_offsets-0"]


def test_groups_with_too_many_records_to_replay_are_named(broker, monkeypatch, run):
    """Of a log with storms in all of its groups, `stats` would replay every record."""
    consumers = [broker.join("a"), broker.join("slow")]
    for _ in range(30):
        restart(broker, consumers[1], consumers, 5)
        broker.poll(*consumers, times=5)
    assert broker.find("rebalance_storm")
    monkeypatch.setattr("kafkagroups.history.scan.MAX_WATCHED_RECORDS", 10)
    assert not broker.find("rebalance_storm")
    text = " ".join(run("stats", broker.path)[1].split())
    assert "to look for storms, skips and second writers (kafkagroups timeline): app." in text
    assert '"unwatched": ["app"]' in run("stats", broker.path, "--json")[1]
    page = " ".join(kg.report(broker.path).html.split())
    assert "to look for storms, skips and second writers (kafkagroups timeline): app." in page


def test_a_leader_that_joins_again_keeps_the_members(broker):
    """A JoinGroup of the leader of a stable group begins a rebalance (doCurrentMemberJoinGroup, 3.9.2).

    It leads since the first generation, and two with the same members are usual after another one.
    """
    consumers = [broker.join("a"), broker.join("b")]
    broker.poll(*consumers, times=15)
    leader = next(each for each in consumers if each.is_leader)
    for _ in range(40):
        leader._send_again()
        broker.poll(*consumers, times=3)
    (storm,), (finding,) = find_storms(broker)
    again = max(event.generation for event in broker.timeline().events if event.generation) - 1
    assert storm.what.startswith(f"Rebalance storm: {again - 2} rebalances in ")
    assert f"in {again - 2} of them, the members stay the same; the last one: Generation" in storm.what
    assert "leader that joins again, or a new topic that a pattern matches" in finding.remedy


def test_a_rolling_restart_and_a_job_that_starts_every_minute_are_no_storms(broker):
    """A deployment of twelve processes restarts each once; a job that is alone in its group disturbs nobody."""
    consumers = [broker.join(f"c{number}") for number in range(12)]
    broker.poll(*consumers, times=15)
    for consumer in consumers:
        restart(broker, consumer, consumers, 3)
        broker.poll(*consumers, times=3)
    job, *others = consumers
    for consumer in others:
        consumer.leave()
    for _ in range(40):
        restart(broker, job, consumers, 3)
        broker.poll(*consumers, times=12)
    assert find_storms(broker) == ([], [])


def test_a_jump_far_beyond_the_usual_steps_is_a_skip():
    """Run 3.9.2-compaction: each group commits every 97 offsets, and a tool sets t-0 to 99999 at the end."""
    path = captured("runs") / "runs" / "3.9.2-compaction" / "before-clean"
    found = find(path, "skipped_records", coordinator="classic")
    assert {(each.group, each.topic_partition) for each in found} == {(f"k-{number}", "t-0") for number in range(8)}
    assert "t-0: 903 -> 99999, ahead by 99096; its longest step before was 97; no member is known" in found[0].what


@pytest.mark.parametrize("engine", ENGINES)
def test_a_reset_to_the_latest_offset_between_two_members_is_a_skip(engine, tmp_path):
    """A 3.9.2 broker wrote such a log: the tool commits no leader epoch, and the group has no member."""
    commits = [(SECOND * n, [commit_record(n)]) for n in range(1, 5)]
    reset = (6 * SECOND, [commit_record(40, leader_epoch=-1)])
    members = [(0, [generation(1, classic_member())]), (5 * SECOND, [generation(2)])]
    log = write_batches(tmp_path, [members[0], *commits, members[1], reset])
    (finding,) = kg.stats(log, engine=engine).findings
    assert finding.kind == "skipped_records" and "t-0: 4 -> 40, ahead by 36; the group had no member" in finding.what


def test_skips_of_several_partitions_in_one_commit_are_one_finding_and_one_line(broker, run):
    """A consumer that finds its offsets out of range begins at the end of each partition, and commits them together."""
    for step in [*range(12), 5000, 9000]:
        broker.clock.advance(MINUTE)
        broker.commit({number: 10 * step + number for number in range(3)})
    (finding,) = broker.find("skipped_records")
    skips = "orders-0 110 -> 50000, orders-1 111 -> 50001, orders-2 112 -> 50002"
    together = f"3 partitions, ahead by 149670 together: {skips}; no member is known."
    assert finding.what == f"Group app can have skipped records at 2023-11-14 22:26:20 UTC: {together}"
    assert finding.remedy.startswith("A backlog or a burst looks the same"), "3000 records a second are no feat"
    found = [(event.from_offset, event.to_offset) for event in broker.timeline().events if event.event == "skip"]
    assert found == [(110 + number, 50000 + number) for number in range(3)]
    options = ("--coordinator", broker.rules["coordinator"], "--kafka", broker.rules["kafka"])
    _, out, _ = run("timeline", broker.path, "--group", "app", *options)
    assert " ".join(out.split()).count(together) == 1
    _, out, _ = run("timeline", broker.path, "--group", "app", *options, "--all")
    assert " ".join(out.split()).count("its longest step before was 10") == 3


def test_two_programs_that_commit_in_turn_are_not_a_step_back(broker):
    """A Java consumer commits leader epochs, and many other clients do not (OffsetCommit v6)."""
    for number in range(8):
        broker.commit({0: OffsetCommit(5000 + 10 * number, "", 3)}, seconds=1)
        broker.commit({0: OffsetCommit(200 + 10 * number, "by hand", -1)}, seconds=1)
    (finding,) = broker.find("two_writers")
    assert (finding.group, finding.topic_partition) == ("app", "orders-0")
    said = (
        "two programs, or one in two ways, commit this offset in turn: one with leader epochs, without metadata is at"
    )
    assert f"{said} 5070" in finding.what, "auto commit has leader epochs, and commitSync of given offsets has none"
    assert "enable.auto.commit=false" in finding.remedy and "group id of its own" in finding.remedy


def test_a_writer_that_is_no_member_gets_another_remedy(tmp_path):
    """An offset sync wrote 197 into a group of a 3.9.2 broker whenever it was empty."""
    batches = []
    for number in range(1, 7):
        consumer = [generation(2 * number, classic_member()), commit_record(1000 * number)]
        sync = [generation(2 * number + 1), commit_record(197, leader_epoch=-1)]
        batches += [(20_000 * number, consumer), (20_000 * number + 10_000, sync)]
    (finding,) = find(write_batches(tmp_path, batches), "two_writers")
    assert "one without leader epochs, without metadata is at 197, only while the group has no member" in finding.what
    assert "one with leader epochs, without metadata is at 6000, one without" in finding.what
    assert "offset sync" in finding.remedy and "rebalance" not in finding.remedy


def test_a_member_that_keeps_a_partition_for_a_minute_is_found(tmp_path):
    """It stays UnrevokedPartitions until its rebalance timeout (GroupMetadataManager, 4.3.1)."""
    broker = Broker(tmp_path, "4.3.1", topics={"orders": 2}, topic_ids={"orders": TOPIC_ID})
    send = broker.coordinator.consumer_group_heartbeat
    joining = {"topic_partitions": {}, "subscribed_topic_names": ("orders",), "rebalance_timeout_ms": 300_000}
    epoch = send("app", "slow", 0, **joining).value.member_epoch
    broker.clock.advance(2 * SECOND)
    send("app", "fast", 0, **joining)
    for _ in range(30):
        send("app", "slow", epoch, topic_partitions={TOPIC_ID: [0, 1]})
        broker.clock.advance(3 * SECOND)
    broker.commit({0: 5}, "other")
    (finding,) = broker.find("unrevoked_partition")
    assert finding.group == "app" and finding.topic_partition.startswith("orders-")
    assert "has to give back orders-" in finding.what and "or 5 min after a load" in finding.what
    assert finding.what.endswith("Until then, it keeps orders-0, orders-1.")
    assert "new copy" in finding.remedy and "if they move, it finishes a batch" in finding.remedy


def test_a_partition_that_nobody_has_is_found_although_the_group_subscribes_to_its_topic(broker):
    """The leader assigns what its metadata show; here, the metadata of the new leader miss orders-1."""
    first = broker.join("old", 2)
    broker.poll(first, times=20, seconds=1, commits=True)
    first.leave()
    second = broker.join("new", 1)
    broker.poll(second, times=200, seconds=1, commits=True)
    assert broker.find("unassigned_partition") == []
    broker.poll(second, times=200, seconds=1, commits=True)
    (finding,) = broker.find("unassigned_partition")
    assert finding.what.startswith("Group app subscribes to orders, and no member has orders-1,")
    (line,) = broker.timeline().waiting
    assert line.startswith("orders-1: no member has it, although the group subscribes to orders (committed: ")


def commit_in_transaction(broker):
    commits = {TopicPartition("orders", 0): OffsetCommit(5)}
    broker.coordinator.txn_offset_commit("app", commits, transactional_id="t", producer_id=7, producer_epoch=0)


@pytest.mark.parametrize(
    ("seconds", "kind"), [(0, None), (4, None), (20, "open_transaction"), (90, "hanging_transaction")]
)
@pytest.mark.parametrize("has_member", [True, False])
def test_an_open_transaction_of_a_group_with_members_is_found_before_it_hangs(broker, has_member, seconds, kind):
    """OffsetFetch with require_stable gets UNSTABLE_OFFSET_COMMIT from the pending commit on (GroupMetadataManager,
    3.9.2; OffsetMetadataManager, 4.3.1), and transaction.timeout.ms is 60 s by default.

    Without a later record, the log does not show that the transaction is open for long.
    """
    if has_member:
        broker.poll(broker.join("c"), times=3)
    commit_in_transaction(broker)
    if seconds:
        broker.clock.advance(seconds * SECOND)
        broker.commit({0: 6}, "other")
    found = [each for each in broker.find() if each.group == "app"]
    assert [each.kind for each in found] == ([kind] if kind and (has_member or seconds > 60) else [])
    if [each.kind for each in found] == ["open_transaction"]:
        assert "still open 20 s later" in found[0].what
        assert "Usually this ends by itself" in found[0].remedy and "by default at 2023-11-14 22:1" in found[0].remedy


@pytest.mark.parametrize(
    ("own_s", "newest"), [(0, "all partitions, if they were copied at the same time"), (90, "the log")]
)
def test_a_transaction_that_is_open_at_the_end_of_a_short_copy(own_s, newest, tmp_path):
    """The other partition was copied 5 minutes later: the transaction was open for 0 or for 90 s in its own one."""
    pending = LogRecord(0, START, *kg.encode(commit_record(100)))
    data = encode_batch([pending], attributes=TRANSACTIONAL, producer_id=7, producer_epoch=3)
    data += encode_batch([LogRecord(1, START + own_s * SECOND, *kg.encode(commit_record(1, group="h")))])
    write_segment(tmp_path, data, 7)
    write_batches(tmp_path, [(300 * SECOND, [commit_record(1, group="h")])], 8)
    (finding,) = find(tmp_path, "hanging_transaction")
    assert f"is still open 300 s later, at the newest record of {newest}. " in finding.what
    assert "If it is still open in a new copy of this partition, and" in finding.remedy


def test_a_group_whose_members_gave_up_while_it_waited_is_blocked_too(broker):
    """The pod that took over waits for stable offsets and then leaves (incident 3 of the runbook's trial, 4.4.0)."""
    commit_in_transaction(broker)
    consumer = broker.join("c")
    broker.clock.advance(4 * SECOND)
    broker.poll(consumer, times=5)
    consumer.leave()
    (finding,) = broker.find("open_transaction")
    assert finding.group == "app" and "consumers of app that start or get other partitions wait" in finding.remedy


@pytest.mark.parametrize("has_members", [True, False])
@pytest.mark.parametrize("groups", [["app"], ["app", "more"]])
@pytest.mark.parametrize("new_offset", [3, 90])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_that_was_created_again_is_found(version, new_offset, groups, has_members, tmp_path):
    """The coordinator deletes the offsets of a deleted topic (onPartitionsDeleted), and 4.1 writes topic ids (KIP-848).

    OffsetDelete is refused for a topic to which a member subscribes (GROUP_SUBSCRIBED_TO_TOPIC). So there, the topic
    was deleted, and any later commit shows a new one, because a broker stores none of a topic that does not exist
    (KafkaApis.handleOffsetCommitRequest, 3.9). Without members, a request can have deleted the offsets of one group;
    lower commits of several groups are a sign, as they are after a script, or a check for expired offsets.
    """
    topic_ids = {"orders": TOPIC_ID}
    broker = Broker(tmp_path, version, topics={"orders": 2}, topic_ids=topic_ids)
    members = [broker.join("c", 2, group) for group in groups if has_members]
    broker.poll(*members, times=3)

    def commit(offset):
        identities = [{"member_id": each.member_id, "generation": each.generation} for each in members]
        for group, identity in zip(groups, identities or [{}, {}], strict=False):
            broker.commit({0: offset, 1: offset}, group, seconds=1, **identity)

    commit(80)
    broker.coordinator.partitions_deleted([TopicPartition("orders", 0), TopicPartition("orders", 1)])
    topic_ids["orders"] = "5uQ2SNmWReyximm-_39NHQ"
    commit(new_offset)
    found = broker.find("topic_created_again")
    has_ids = version >= "4.1"
    assert len(found) == (has_ids or has_members or (new_offset < 80 and len(groups) > 1))
    for finding in found:
        was = "was" if has_ids or has_members else "can have been"
        assert finding.what.startswith(f"Topic orders {was} created again, at the latest at 2023-11-14 22:1")
        shown = "a broker stores no later commit without a new topic" if has_members else "or expired, or a script"
        shown = f"its id changed from {TOPIC_ID} to 5uQ2SNmWReyximm-_39NHQ" if has_ids else shown
        assert shown in finding.what and ", ".join(groups) in finding.what
        assert finding.group == ("app" if groups == ["app"] else None)
        assert "Do not set offsets of orders from before that time" in finding.remedy
        assert ("If its partition.metadata is older" in finding.remedy) == (was == "can have been")


@pytest.mark.parametrize("ends", ["leave", "crash"])
def test_a_member_that_left_and_one_that_timed_out_look_alike(broker, ends):
    """The coordinator removes both with the same records (GroupCoordinator.removeMemberAndUpdateGroup, 3.9.2;
    GroupMetadataManager.consumerGroupFenceMember, 4.3.1), so no sentence says that one of them left.
    """
    first, second = (broker.join(name) for name in ("loader-1", "loader-2"))
    broker.poll(first, second, times=5)
    getattr(second, ends)()
    broker.poll(first, times=20)
    (event,) = [each for each in broker.timeline().events if each.members_left and "loader-2" in each.what]
    assert "loader-2 is gone (left, or timed out)" in event.what


def test_who_had_the_partitions_stands_before_a_deletion(tmp_path, run):
    """The members of a consumer group get their partitions one after another, in routine heartbeats (KIP-848), so the
    text without --all says who has what where it matters. The expected owners are those that the coordinator answers.
    """
    broker = Broker(tmp_path, "4.3.1", topics={"orders": 4}, topic_ids={"orders": TOPIC_ID})
    shared = (("orders",), {"orders": 4}, "uniform")
    a, b = (ConsumerProtocolConsumer(broker.coordinator, "app", name, *shared) for name in ("a", "b"))
    broker.poll(a, times=2, commits=True)
    broker.poll(a, b, times=8, commits=True)
    owned = [f"{name} has {', '.join(map(str, sorted(each.assignment)))}" for name, each in (("a", a), ("b", b))]
    broker.coordinator.partitions_deleted([TopicPartition("orders", number) for number in range(4)])
    events = broker.timeline().events
    (assignment,) = [event for event in events if event.event == "assignment"]
    assert assignment.what == f"By then, {owned[0]}; {owned[1]}." and len(a.assignment) == len(b.assignment) == 2
    assert events[events.index(assignment) + 1].event == "offset_deleted"
    assert assignment.what in " ".join(run("timeline", tmp_path, "--group", "app")[1].split())
    assert not any(event.event == "assignment" for event in kg.timeline(tmp_path, "app", all=True).events)


def test_a_topic_is_named_by_a_later_record_of_another_group(tmp_path, run):
    """Assignments of newer groups have the id of a topic, and commits have both since Kafka 4.1."""
    broker = Broker(tmp_path, "4.3.1", topics={"orders": 4}, topic_ids={"orders": TOPIC_ID})
    consumer = ConsumerProtocolConsumer(broker.coordinator, "app", "a", ("orders",), {"orders": 4}, "uniform")
    broker.poll(consumer, times=2)
    broker.commit({0: 7}, "other")
    broker.logs.close()
    for stop in ((), ("--until-time", str(START + SECOND))):
        assert "assigned: orders: 0-3" in run("load", tmp_path, *stop)[1]
        text = " ".join(run("timeline", tmp_path, "--group", "app", *stop)[1].split())
        assert "a has orders-0, orders-1, orders-2 and 1 more." in text and TOPIC_ID not in text


def test_a_topic_that_only_a_share_group_names(run):
    """The log of a 4.3.1 broker (harbour): record type 15 of the group tasters has the id and the name of stock."""
    assert "assigned: stock: 0\n" in run("load", DATA / "4.3.1", "--group", "tasters")[1]
