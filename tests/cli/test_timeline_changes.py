"""A topic or a group that was made again, and a group that goes back when it moves to another partition.

The logs follow real groups of 4.3.1 brokers. A topic was deleted and created again; a group was deleted, and a share
consumer took its name; the offsets topic got more partitions. The expectations follow from the records.
"""

import msgspec
import pytest

import kafkagroups as kg
from tests import handmade
from tests.handmade import (
    START,
    TRANSACTIONAL,
    LogRecord,
    classic_member,
    commit_record,
    consumer_epoch,
    consumer_group,
    consumer_member,
    encode_batch,
    encode_marker,
    group_tombstone,
    offset_tombstone as tombstone,
    share_group as share,
    write_batches,
)

OLD = "5uQ2SNmWReyximm-_39NHQ"
NEW = "BblvQal6RcSV5OeUtKizDQ"
CREATED_AGAIN = f"the topic was created again: its id changed from {OLD} to {NEW}"
DAY = 86_400


MEMBER = classic_member()


def write(folder, batches, partition=7):
    """Write batches: a second and its records."""
    return write_batches(folder, [(1000 * second, records) for second, records in batches], partition)


def commit(partition, offset, topic_id=None, topic="t"):
    return commit_record(offset, partition, topic, topic_id=topic_id)


STAYS = commit(0, 1, topic="other")
"""An offset that nothing deletes, so that the group stays."""


def generation(number, *members):
    return handmade.generation(number, *members, protocol=None)


def share_group():
    member = share.ShareGroupMemberMetadataValue(None, "poc", "/10.0.0.1", ("t",))
    return [
        kg.Record(10, consumer_group.MemberIdKey("g", "m"), member, 0),
        kg.Record(11, consumer_group.GroupIdKey("g"), share.ShareGroupMetadataValue(2, 1), 0),
    ]


def pattern_record(pattern, *topics):
    value = consumer_group.ConsumerGroupRegularExpressionValue(topics, 1, START)
    return kg.Record(16, consumer_group.ConsumerGroupRegularExpressionKey("g", pattern), value, 0)


def whats(path, **options):
    return [event.what for event in kg.timeline(path, "g", **options).events]


def test_a_position_in_the_topic_before_is_not_one_to_go_back_to(tmp_path):
    """As in a log of a 4.3.1 broker: its consumer committed the old position once more after the topic was made again,
    found it out of range, and began at the new topic's start. Nothing of the new topic is read twice.
    """
    log = write(tmp_path, [(0, [commit(0, 361, OLD)]), (1, [tombstone(0)]), (2, [commit(0, 361, NEW)])])
    history = kg.explain(log, "g").history
    assert "record 2 has another topic id" in history[1].what and history[1].cause.value == "unknown"
    assert history[2].what == "t-0: 361 was a position in the topic before, with another id."
    log = write(tmp_path / "later", [(0, [commit(0, 361, OLD)]), (2, [commit(0, 361, NEW)]), (3, [commit(0, 4, NEW)])])
    timeline = kg.timeline(log, "g")
    assert timeline.rewound == [] and "361 was a position in the topic before." in timeline.events[-1].what
    log = write(tmp_path / "same", [(0, [commit(0, 361, OLD)]), (2, [commit(0, 361, OLD)]), (3, [commit(0, 4, OLD)])])
    (position,) = kg.timeline(log, "g").rewound
    assert (position.now, position.highest) == (4, 361)
    log = write(tmp_path / "on", [(0, [commit(0, 361, OLD)]), (2, [commit(0, 500, NEW)]), (3, [commit(0, 4, NEW)])])
    assert [each.highest for each in kg.timeline(log, "g").rewound] == [500], "only a repeated position is the old one"


def test_the_first_commit_of_a_topic_that_was_created_again(tmp_path):
    """Each partition of the topic has the new id. The timeline says it once."""
    batches = [
        (0, [commit(0, 100, OLD), commit(1, 200, OLD)]),
        (1, [tombstone(0), tombstone(1)]),
        (2, [commit(0, 110, NEW)]),
        (3, [commit(1, 5, NEW)]),
        (4, [commit(0, 111, NEW)]),
    ]
    skips = "in a new topic, at most 0 to"
    start = "unless the group began at the start"
    assert whats(write(tmp_path, batches))[-2:] == [
        f"t-0: 110, the first commit after 100 was deleted: {skips} 109 are skipped, {start}, or it is a position in "
        f"the old topic; {CREATED_AGAIN}.",
        f"t-1: 5, the first commit after 200 was deleted: {skips} 4 are skipped, {start}.",
    ]


@pytest.mark.parametrize(
    ("new_id", "who", "cause"), [(OLD, "by request", "offset_deleted"), (NEW, "probably with the topic", "unknown")]
)
def test_a_later_topic_id_decides_who_deleted_an_offset(tmp_path, run, new_id, who, cause):
    """A topic that was deleted comes back with another id (KIP-516)."""
    batches = [(0, [commit(0, 253, OLD)]), (1, [tombstone(0)]), (2, [commit(0, 4, new_id)])]
    path = write(tmp_path, batches)
    id_is = "the same" if new_id == OLD else "another"
    skips = f": in a new topic, at most 0 to 3 are skipped, unless the group began at the start; {CREATED_AGAIN}"
    read_again = ": at least 4 to 252 is read again" if new_id == OLD else skips
    assert whats(path)[1:] == [
        f"t-0: 253 deleted, {who}: record 2 has {id_is} topic id.",
        f"t-0: 4, the first commit after 253 was deleted{read_again}.",
    ]
    retained = write_batches(tmp_path / "day", [(n * DAY * 500, records) for n, (_, records) in enumerate(batches)], 7)
    expired = kg.explain(retained, "g", retention_ms=7 * DAY * 1000).history[1]
    shorter = ", or expired after 12 h, if the broker's retention time is shorter" if new_id == OLD else ""
    assert expired.what == f"t-0: 253 deleted, {who}{shorter}: record 2 has {id_is} topic id."
    assert expired.cause.value == "unknown", "an offset of a broker with 12 h expires with the same topic id"
    assert f"deleted, {who}: record 2 has" in " ".join(run("explain", path, "--group", "g")[1].split())
    assert [each.cause.value for each in kg.explain(path, "g").history if each.cause] == [cause]


def test_without_topic_ids_a_lower_commit_can_be_in_a_new_topic(tmp_path):
    path = write(tmp_path, [(0, [commit(0, 253), STAYS]), (1, [tombstone(0)]), (2, [commit(0, 4)])])
    said = "253 was deleted: at least 4 to 252 is read again, unless the topic was created again."
    assert whats(path)[3].endswith(said)


def test_what_one_batch_deletes_is_said_where_the_cause_is_open(tmp_path):
    """A request (OffsetDelete) is about one group; the offsets of a deleted topic are deleted in all groups."""
    commits = [STAYS, commit(0, 5), commit(0, 6, topic="u")]
    path = write(tmp_path / "request", [(0, commits), (1, [tombstone(0), tombstone(0, "u")])])
    assert whats(path)[3:] == [
        "t-0: 5 deleted, by request or with the topic; the same batch deletes u-0.",
        "u-0: 6 deleted, by request or with the topic; the same batch deletes t-0.",
    ]
    other = commit_record(7, 0, "t", group="h")
    path = write(tmp_path / "topic", [(0, [*commits[:2], other]), (1, [tombstone(0), tombstone(0, group="h")])])
    for engine in ("python", "auto"):
        assert whats(path, engine=engine)[2] == (
            "t-0: 5 deleted, by request or with the topic; the same batch deletes offsets of h."
        )


def test_events_that_only_move_forward_are_not_no_events(tmp_path, run):
    """What the text leaves out is counted: a group that commits regularly does not look as if it stood still."""
    path = write(tmp_path, [(second, [commit(0, 10 + second)]) for second in range(10)])
    _, out, _ = run("timeline", path, "--group", "g", "--since-time", "2023-11-14T22:13:25")
    assert "Not shown: 5 routine events. --all shows them." in out
    assert "No event" not in out and "No record of" not in out
    _, out, _ = run("timeline", path, "--group", "g", "--since-time", "2030-01-01")
    assert "No event of g in" in out


def test_a_group_without_a_record_in_a_log_that_lost_its_beginning(tmp_path, run):
    """As in a topic with cleanup.policy=delete: the newest offset of a quiet group can be only in a broker's memory."""
    path = write(tmp_path, [(0, [commit(0, 5)])], partition=0)
    segment = path / f"{0:020}.log"
    start = encode_batch([LogRecord(167, START, *kg.encode(commit(0, 5)))])
    segment.unlink()
    (path / f"{167:020}.log").write_bytes(start)
    for command in ("timeline", "explain"):
        _, out, _ = run(command, path, "--group", "bonus", "--partitions", "1")
        assert "This partition begins at offset 167: older records are gone." in " ".join(out.split())


def test_many_steps_back_without_a_member_can_be_two_programs(tmp_path):
    """As two jobs with one group id, of which the old one was not cancelled: both only go forward."""
    offsets = [offset for step in range(5) for offset in (240 + 10 * step, 100 + 10 * step)]
    path = write(tmp_path, [(second, [commit(0, offset)]) for second, offset in enumerate(offsets)])
    (found,) = kg.timeline(path, "g").rewound
    assert found.describe_rewound().startswith("t-0: the highest committed offset was 280")
    path = write(tmp_path / "again", [(second, [commit(0, offset)]) for second, offset in enumerate([*offsets, 290])])
    (found,) = kg.timeline(path, "g").rewound
    assert "t-0: back 5 times, as if two programs commit in turn, last from 280" in found.describe_rewound()


@pytest.mark.parametrize("seconds", [10, 40])
def test_members_that_never_commit_are_named(tmp_path, seconds):
    """As a release of a 4.3.1 group whose program did not commit: each new owner began at the old offsets."""
    batches = [
        (0, [generation(1, MEMBER)]),
        (1, [commit(0, 181)]),
        (5, [generation(2, classic_member("n", client="new"))]),
        (1 + seconds, [generation(3, classic_member("o", client="newer"))]),
    ]
    waiting = kg.timeline(write(tmp_path, batches), "g").waiting
    said = "No commit since 7:1 (2023-11-14 22:13:21 UTC); since then, new, newer joined, and a new owner begins"
    assert any(line.startswith(said) for line in waiting) == (seconds > 30)


def test_a_commit_whose_offset_was_deleted_is_a_commit(tmp_path):
    """A group that goes on committing is not called silent because of the offset that is left."""
    batches = [
        (0, [generation(1, MEMBER), STAYS]),
        (1, [generation(2, classic_member("n", client="new"))]),
        (40, [commit(0, 9)]),
        (41, [tombstone(0)]),
        (45, [generation(3, classic_member("o", client="newer"))]),
    ]
    assert not [line for line in kg.timeline(write(tmp_path, batches), "g").waiting if line.startswith("No commit")]


@pytest.mark.parametrize(("offset", "change"), [(20, "100 -> 20, back by 80; no member is known"), (300, "100 -> 300")])
def test_a_new_id_without_a_deletion_in_the_log(tmp_path, run, offset, change):
    """The commit is shown also if it only moves forward. The old positions are not those of this topic."""
    path = write(tmp_path, [(0, [commit(0, 100, OLD)]), (1, [commit(0, offset, NEW)])])
    assert whats(path)[-1] == f"t-0: {change}; {CREATED_AGAIN}."
    _, out, _ = run("timeline", path, "--group", "g")
    assert f"t-0: {change}; {CREATED_AGAIN}." in " ".join(out.split())
    assert "Positions that went back" not in out


def test_a_new_id_in_a_transaction(tmp_path):
    """The topic's new id counts when the transaction is committed."""
    path = write(tmp_path, [(0, [commit(0, 100, OLD)])])
    pending = LogRecord(1, START, *kg.encode(commit(0, 120, NEW)))
    with (path / f"{0:020}.log").open("ab") as file:
        file.write(encode_batch([pending], attributes=TRANSACTIONAL, producer_id=9, producer_epoch=0))
        file.write(encode_marker(2, 9))
    assert whats(path)[-1] == f"t-0: 100 -> 120, by producer 9; {CREATED_AGAIN}."


def test_a_commit_without_an_id_and_another_topic_say_nothing(tmp_path):
    """Value version 3 has no topic id."""
    batches = [(0, [commit(0, 100, OLD)]), (1, [commit(0, 101), commit(0, 7, NEW, "u")]), (2, [commit(0, 102, OLD)])]
    assert not any("again" in what for what in whats(write(tmp_path, batches), all=True))


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        (share_group(), "Epoch 2: now a share group, poc (10.0.0.1) joined."),
        ([consumer_member(), consumer_epoch(2)], "Epoch 2: now a consumer group, c (h) joined."),
        ([generation(1, MEMBER)], "Generation 1: c (h) joined, 1 member."),
    ],
)
def test_a_deleted_classic_group_gets_another_type(tmp_path, records, sentence):
    path = write(tmp_path, [(0, [generation(1, MEMBER)]), (1, [generation(2)]), (2, [group_tombstone()]), (3, records)])
    assert whats(path)[-1] == sentence


def test_a_deleted_share_group_becomes_a_classic_group(tmp_path):
    """Kafka 4 first writes a generation without members."""
    deletion = [
        kg.Record(10, consumer_group.MemberIdKey("g", "m"), None, None),
        kg.Record(11, consumer_group.GroupIdKey("g"), None, None),
    ]
    batches = [(0, share_group()), (1, deletion), (2, [generation(0)]), (3, [generation(1, MEMBER)])]
    sentences = whats(write(tmp_path, batches))
    assert sentences[0] == "Epoch 2 of a share group: poc (10.0.0.1) joined."
    assert sentences[-1] == "Generation 1: now a classic group, c (h) joined, 1 member."


def test_an_empty_share_group_keeps_its_id(tmp_path, run):
    """GroupMetadataManager.getOrMaybeCreateConsumerGroup and classicGroupJoin (4.3.1) refuse an id of a share group."""
    _, metadata = share_group()
    _, out, _ = run("timeline", write(tmp_path, [(0, [metadata])]), "--group", "g")
    assert "An Empty share group keeps its id: until it is deleted, consumers that join get" in " ".join(out.split())


def test_a_first_commit_that_is_lower_than_in_the_old_partition(tmp_path):
    """Only t-0 goes back. t-1 goes on, perhaps beyond records that nobody read, and t-2 was deleted before."""
    old = [
        (0, [commit(0, 900), commit(1, 900), commit(2, 900)]),
        (1, [commit(0, 920)]),
        (2, [tombstone(2)]),
    ]
    write(tmp_path, old, 9)
    write(tmp_path, [(10, [commit(0, 25), commit(1, 905), commit(2, 25)]), (11, [commit(0, 30)])], 34)
    lower, *others = [event.what for event in kg.timeline(tmp_path, "g").events if event.partition == 34]
    assert lower.startswith("t-0: 25, the first commit; lower than 920 (9:3), its offset in partition 9")
    above = "above 900 (9:1), its offset in partition 9 of __consumer_offsets: what lies between can be skipped"
    assert others == [f"t-1: 905, the first commit; {above}.", "t-2: 25, the first commit."]


def test_a_commit_before_those_of_the_other_partition_is_not_lower(tmp_path):
    write(tmp_path, [(10, [commit(0, 900)])], 9)
    write(tmp_path, [(0, [commit(0, 25)])], 34)
    assert not any("lower" in what for what in whats(tmp_path))


def test_a_deleted_group_begins_again_in_the_other_partition(tmp_path):
    deletion = [tombstone(0), group_tombstone()]
    write(tmp_path, [(0, [generation(1)]), (1, [commit(0, 900)]), (2, deletion)], 9)
    write(tmp_path, [(10, [commit(0, 25)])], 34)
    assert not any("lower" in what for what in whats(tmp_path))


def test_the_retention_time_tells_an_expiry_from_a_request(tmp_path, run):
    """The hint stands once, and only if it helps."""
    path = write(tmp_path, [(0, [commit(0, 1), commit(1, 2)]), (2 * DAY, [tombstone(0), tombstone(1)])])
    _, out, _ = run("timeline", path, "--group", "g")
    said = "or was deleted by a request or with the topic."
    assert " ".join(out.split()).count(said) == 2, "no offset of the topic is left"
    assert out.count("Did offsets expire, or did a request delete them?") == 1
    for retention in ("1d", "7d"):
        _, out, _ = run("timeline", path, "--group", "g", "--retention", retention)
        assert "Did offsets expire" not in out
    kept = write(tmp_path, [(0, [commit(0, 1)])], 8)
    assert "--retention" not in run("timeline", kept, "--group", "g")[1]


def test_a_pattern_that_matches_a_new_topic(tmp_path, run):
    """The record of the pattern has the topics (type 16); the member has only the pattern."""
    member = consumer_member(topics=())
    value = msgspec.structs.replace(member.value, subscribed_topic_regex="t.*")
    batches = [
        (0, [msgspec.structs.replace(member, value=value)]),
        (1, [pattern_record("t.*", "t"), consumer_epoch(2)]),
        (9, [pattern_record("t.*", "t", "trace"), consumer_epoch(3)]),
    ]
    path = write(tmp_path, batches)
    assert whats(path)[1:] == ["Epoch 2: pattern t.* matches t.", "Epoch 3: pattern t.* now also matches trace."]
    assert "rebalance time-out in ms 1000, pattern t.*" in " ".join(run("load", path)[1].split())
