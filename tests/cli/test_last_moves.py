"""Positions that stand still while others move, and the members that have them.

The logs follow a real group of a 4.3.1 broker: one record stopped each consumer that got its partition. Some partitions
had no new records, and their offset was committed again and again. The expectations follow from the commits.
"""

import json

import pytest

import kafkagroups as kg
from tests.handmade import (
    MINUTE,
    START,
    classic_member,
    commit_record,
    consumer_epoch,
    consumer_group as consumer,
    consumer_member,
    generation,
    write_batches,
)

TOPIC_ID = "z6jOMydVS2aJDLNvbwM1VQ"


def write(folder, batches):
    """Write batches: a minute and its records."""
    return write_batches(folder, [(minute * MINUTE, records) for minute, records in batches])


def commit(partition, offset, minute, topic_id=None):
    return commit_record(offset, partition, time=START + minute * MINUTE, topic_id=topic_id)


def classic_group():
    m1 = classic_member("m1", client="m1", host="/10.0.0.1", assigned=(0, 2))
    m2 = classic_member("m2", client="m2", host="/10.0.0.2", assigned=(1,))
    return [generation(1, m1, m2)]


def new_member(member_id, host, assigned, revoked=()):
    """The member and its current assignment."""
    owned, to_revoke = (
        (consumer.TopicPartitions(TOPIC_ID, partitions),) if partitions else () for partitions in (assigned, revoked)
    )
    current = consumer.ConsumerGroupCurrentMemberAssignmentValue(1, 0, 1 if revoked else 0, owned, to_revoke)
    key = consumer.MemberIdKey("g", member_id)
    return [consumer_member(member_id, client=member_id, host=host), kg.Record(8, key, current, 0)]


def new_group():
    """Member m1 has to give partition 0 back, and still has it."""
    return [*new_member("m1", "/10.0.0.1", (2,), (0,)), consumer_epoch(1), *new_member("m2", "/10.0.0.2", (1,))]


def commits(last_moves, end, topic_id=None):
    """A commit each minute: a partition moves until its minute in `last_moves`. Then its offset is not committed."""
    for minute in range(1, end + 1):
        records = [
            commit(partition, 100 + minute, minute, topic_id)
            for partition in last_moves
            if minute <= last_moves[partition]
        ]
        yield minute, records


@pytest.mark.parametrize(
    ("group", "topic_id"), [(classic_group, None), (new_group, TOPIC_ID)], ids=["classic", "consumer"]
)
@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_position_that_stands_still_is_shown_with_its_member(tmp_path, run, group, topic_id, engine):
    batches = [(0, group()), *commits({0: 20, 1: 60, 2: 60}, 60, topic_id)]
    path = write(tmp_path, batches)
    positions = kg.timeline(path, "g", engine=engine).positions
    assert [(str(each.topic_partition), each.now, each.stands_still) for each in positions] == [
        ("t-0", 120, True),
        ("t-1", 160, False),
        ("t-2", 160, False),
    ]
    assert [each.moved_ms for each in positions] == [START + minute * MINUTE for minute in (20, 60, 60)]
    assert [each.member[0] for each in positions] == ["m1", "m2", "m1"]
    _, out, _ = run("timeline", path, "--group", "g", "--engine", engine)
    record = positions[0].record
    assert (
        f"! t-0: 120 (7:{record}), last move 2023-11-14 22:33:20 UTC, no commit since, now assigned to m1 (10.0.0.1)."
    ) in " ".join(out.split())
    _, out, _ = run("timeline", path, "--group", "g", "--engine", engine, "--json")
    last = json.loads(out.splitlines()[-1])
    assert (last["event"], last["topic_partition"], last["to"], last["offset"]) == (
        "standing_still",
        "t-0",
        120,
        record,
    )
    assert [member["host"] for member in last["members"]] == ["/10.0.0.1"]


def test_positions_that_all_move_or_all_stop_are_not_shown(tmp_path, run):
    """A group that stopped, a partition without new records, and one with few records are healthy."""
    idle = commit(1, 7, 0)
    batches = [(0, [*classic_group(), idle])]
    for minute, records in commits({0: 60}, 60):
        rare = [commit(2, minute, minute)] if minute % 15 == 0 else []
        batches.append((minute, [*records, idle, *rare]))
    batches.append((500, [generation(2)]))
    path = write(tmp_path, batches)
    assert not any(position.stands_still for position in kg.timeline(path, "g").positions)
    _, out, _ = run("timeline", path, "--group", "g")
    assert "stands still" not in out and "end of the log" not in out


def test_an_offset_that_is_set_after_the_group_stopped(tmp_path):
    """Somebody set the offset of t-1 back, and then offsets of t-3. The positions before stopped together."""
    batches = [(0, classic_group()), *commits({0: 60, 1: 60}, 60)]
    batches.append((90, [commit(1, 50, 90)]))
    batches.append((91, [commit(3, 50, 91)]))
    batches.append((92, [commit(3, 60, 92)]))
    positions = kg.timeline(write(tmp_path, batches), "g").positions
    assert len(positions) == 3 and not any(position.stands_still for position in positions)


def test_a_pause_that_is_usual_is_no_standstill(tmp_path):
    """The position paused for 30 minutes before. A pause of 60 minutes is not much longer."""
    moves = [*range(1, 21), 50]
    batches = [(0, classic_group())]
    batches += [
        (minute, [commit(0, minute, minute), *([commit(1, minute, minute)] if minute in moves else [])])
        for minute in range(1, 111)
    ]
    assert not any(position.stands_still for position in kg.timeline(write(tmp_path, batches), "g").positions)


def test_an_offset_that_is_committed_again_and_again(tmp_path):
    """A consumer that starts at the same record again and again can commit its offset."""
    batches = [(0, classic_group()), *commits({0: 20, 1: 60}, 60)]
    batches += [(61, [commit(0, 120, 61), commit(1, 161, 61)])]
    what = kg.timeline(write(tmp_path, batches), "g").to_json()[-1]["what"]
    assert "t-0: 120 stands still" in what and "committed again until 2023-11-14 23:14:20 UTC" in what


def test_a_large_group_shows_only_the_positions_that_stand_still(tmp_path, run):
    last_moves = {0: 20} | dict.fromkeys(range(1, 30), 60)
    path = write(tmp_path, commits(last_moves, 60))
    _, out, _ = run("timeline", path, "--group", "g")
    table = out.partition("Positions at the end of the log")[2]
    assert table.count("t-") == 1 and "29 more positions: --all shows all of them." in table
    _, out, _ = run("timeline", path, "--group", "g", "--all")
    assert out.partition("Positions at the end of the log")[2].count("t-") == 30


def test_a_pause_of_less_than_a_minute_is_marked_and_an_idle_partition_is_not(tmp_path, run):
    """t-0 moves every 2 s, and then pauses for 30 s while t-1 moves on: more than three of its usual pauses, and more
    than two intervals of auto.commit.interval.ms (5 s). t-2 moves every 12 s, and t-3 has no new records.
    """
    moves = {0: range(0, 60, 2), 1: range(0, 90, 2), 2: range(-60, 80, 12)}
    idle = commit_record(7, 3, time=START - 60_000)
    batches = [(-60_000, [*classic_group(), idle])]
    for second in range(-60, 90):
        moved = [partition for partition in moves if second in moves[partition]]
        records = [commit_record(1000 + second, partition, time=START + 1000 * second) for partition in moved]
        batches += [(1000 * second, records)] if records else []
    path = write_batches(tmp_path, batches)
    positions = kg.timeline(path, "g").positions
    assert [str(each.topic_partition) for each in positions if each.pauses] == ["t-0"]
    assert not any(each.stands_still for each in positions)
    text = " ".join(run("timeline", path, "--group", "g")[1].split())
    said = "last move 2023-11-14 22:14:18 UTC, no commit since, now assigned to m1 (10.0.0.1)."
    assert "? so far for less than a minute)" in text and "? t-0: 1058 (7:" in text and said in text
    assert "standing_still" not in run("timeline", path, "--group", "g", "--json")[1]
