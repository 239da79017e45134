"""Replicas that fork: the logs are those of a real broker, cut and continued as two leaders continue them.

The rules are those of Kafka: LeaderEpochFileCache.endOffsetFor and AbstractFetcherThread.getOffsetTruncationState
(4.3.1). The truncation cases are those of KIP-101 and KIP-279.
"""

import json
import re
import shutil
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups.coordinator.logs import find_truncation_offset
from kafkagroups.history.replicas import Healing
from kafkagroups.log.fork import find_fork
from tests import cases
from tests.captured import captured
from tests.groups.test_load_runs import DATA
from tests.handmade import LogRecord, LogWriter, commit_record, encode_batch, flip_bit, offset_tombstone, write_batches

LOG = DATA / "4.3.1" / "__consumer_offsets-9"
COMMIT_TIME = 1795256200000


@pytest.fixture
def write(tmp_path):
    """Return a function that copies the broker's log and appends batches of commits, each with a leader epoch."""

    def build(name, batches=(), start=LOG):
        folder = tmp_path / name / "__consumer_offsets-9"
        shutil.copytree(start, folder)
        with LogWriter(folder) as writer:
            for epoch, *commits in batches:
                writer.append(encode(writer.next_offset, commits, epoch))
        return folder

    return build


def encode(offset, commits, epoch, **fields):
    records = [LogRecord(offset + n, COMMIT_TIME, *commit(*each)) for n, each in enumerate(commits)]
    return encode_batch(records, partition_leader_epoch=epoch, **fields)


def commit(topic_partition, offset, group="billing"):
    """Return the key and the value of a commit. Offset None: a tombstone."""
    partition = kg.TopicPartition.parse(topic_partition)
    if offset is None:
        return kg.encode(offset_tombstone(partition.partition, partition.topic, group))
    return kg.encode(commit_record(offset, partition.partition, partition.topic, group=group, time=COMMIT_TIME))


@pytest.fixture
def say(run):
    """Return a function that gives the text of `diff` about two logs as one line."""

    def ask(a, b, *options):
        status, out, _ = run("diff", a, b, *options)
        assert status == 0
        return " ".join(out.split())

    return ask


def end_of(log):
    return kg.load(log).partitions[9].next_offset


@pytest.fixture
def replicas(write):
    """Two replicas of a 3.9.2 log that ends at offset 44 (dump.txt): a has a lost commit, b is the new leader."""
    start = DATA / "3.9.2" / "__consumer_offsets-9"
    return write("a", [(0, ("orders-0", 90))], start), write("b", [(2, ("orders-0", 60))], start)


def test_the_text_names_the_fork_of_two_replicas(run, replicas):
    """Epoch 0 of a ends at 44 on b, so a truncates to 44."""
    status, out, _ = run("diff", *replicas, "--coordinator", "classic", "--json")
    found = json.loads(out)
    assert status == 0 and found["truncation"] == {"9": {"newer": "b", "offset": 44}}
    assert [pair["offset"] for pair in found["offsets"]["billing"]["orders-0"]] == [90, 60]
    status, out, _ = run("diff", *replicas, "--coordinator", "classic")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "Partition 9: the replicas fork at offset 44. Up to there, their records agree." in lines
    text = " ".join(out.split())
    assert "When a follows b, it truncates its log to offset 44, and loses 1 record." in text
    assert "billing orders-0 offset 90 → 60 lost: b is behind (record 44)" in lines
    assert all(len(line) <= 80 for line in out.splitlines() if "/" not in line)


@pytest.mark.parametrize(
    ("epochs", "offset", "verdict", "topic"),
    [
        (
            (0, 1),
            60,
            "lost: b is behind (record 1);",
            "the topic forks, too, at record 59 or before: it has leader epoch 1 on b, and at most 0 on a",
        ),
        ((0, 1), 95, "healed, now record 1 on b,", "the topic has a new leader, too"),
        (
            (-1, -1),
            95,
            "healed, now record 1 on b,",
            "without leader epochs, nothing says whether the topic forks, too",
        ),
    ],
)
def test_a_topic_with_a_new_leader_after_the_fork_is_named(epochs, offset, verdict, topic, tmp_path, run):
    """Two real 4.3.1 brokers: bookings was elected uncleanly, too, so 60 is another record for the new leader.

    Leader epochs never fall within a log (KIP-101). So a 60 of epoch 1 and a 90 of epoch 0 are not in one log; a 95 of
    epoch 1 can follow. Some clients write no epochs.
    """
    commits = {"a": commit_record(90, leader_epoch=epochs[0]), "b": commit_record(offset, leader_epoch=epochs[1])}
    logs = [write_batches(tmp_path / name, [(0, [commit_record(50)]), (1, [each])]) for name, each in commits.items()]
    _, out, _ = run("diff", *logs)
    text = " ".join(out.split())
    assert verdict in text and topic in text


def test_a_damaged_replica_is_not_called_older(run, replicas):
    """A 4.3.1 broker that was stopped cleanly goes on behind a flipped bit, where a reader of its log ends."""
    (segment,) = replicas[1].glob("*.log")
    flip_bit(segment, segment.stat().st_size // 2)
    status, out, _ = run("diff", *replicas, "--coordinator", "classic")
    text = " ".join(out.split())
    assert status == 1 and "Partition 9: b is damaged: " in text and "compared only up to there" in text
    assert "is the newer replica" not in text and "after the fork" not in text


def test_a_replica_with_a_torn_end_is_compared_as_a_recovery_leaves_it(run, replicas):
    """No readable batch follows, so nothing hides behind the damage: the epochs say who is newer."""
    (segment,) = replicas[0].glob("*.log")
    segment.write_bytes(segment.read_bytes()[:-10])
    status, out, _ = run("diff", *replicas, "--coordinator", "classic")
    text = " ".join(out.split())
    assert status == 1 and "is damaged: " not in text and "b is the newer replica" in text


def test_a_fork_shows_what_was_lost_and_what_a_later_commit_has_healed(write):
    """a is the old leader (epoch 0). b was elected without its last three batches, and wrote four batches."""
    end = end_of(LOG)
    a = write("a", [(0, ("orders-0", 90)), (0, ("orders-1", 91)), (0, ("orders-2", 92))])
    b = write("b", [(2, ("payments-0", 70)), (2, ("orders-1", 95)), (2, ("orders-2", 92)), (2, ("payments-1", 44))])
    result = kg.compare_replicas(a, b)
    found = result.to_json()
    assert found["fork"] == {"9": {"offset": end, "leader_epochs": [0, 2], "a_only": 3, "b_only": 4}}
    assert found["truncation"] == {"9": {"newer": "b", "offset": end}}
    assert found["offsets"] == kg.diff(kg.load(a), kg.load(b))["offsets"]
    assert found["healed"]["offsets"]["billing"] == {
        "orders-0": False,  # Only a has the commit of 90.
        "orders-1": True,  # b committed 95 after the fork.
        "orders-2": True,  # b committed 92 again: the answers are equal.
        "payments-0": True,  # Only b changed it.
        "payments-1": True,
    }
    mirrored = kg.compare_replicas(b, a).to_json()
    assert mirrored["healed"] == found["healed"]
    assert mirrored["fork"]["9"] == {"offset": end, "leader_epochs": [2, 0], "a_only": 4, "b_only": 3}
    assert mirrored["truncation"]["9"] == {"newer": "a", "offset": end}


def test_the_election_in_another_partition_says_who_leads_a_partition_without_new_records(write, say):
    """A broker that takes over leads all partitions; the election of one without records leaves no epoch in its log."""
    end = end_of(LOG)
    sides = [write("a", [(0, ("orders-0", 90))]), write("b")]
    for side, epoch in zip(sides, (0, 2), strict=True):
        for number, leader_epoch in enumerate((0, epoch)):
            with LogWriter(side.parent / "__consumer_offsets-8") as writer:
                writer.append(encode(number, [("orders-0", 5 + number * (1 + epoch))], leader_epoch))
    a, b = (side.parent for side in sides)
    found = kg.compare_replicas(a, b).to_json()
    assert found["truncation"] == {"8": {"newer": "b", "offset": 1}, "9": {"newer": "b", "offset": end}}
    text = say(a, b)
    assert "In partition 8 it was b, so probably here, too. When a follows b, it truncates its log to" in text
    assert f"When b follows a, it keeps its records, and fetches from offset {end} on." in text


def test_a_fork_says_when_its_records_were_written_and_which_belong_to_transactions(write, say):
    """The times are those of the records; with --until-time, the same answers keep their labels."""
    a = write("a", [(0, ("orders-0", 90))])
    with LogWriter(a) as writer:
        transactional = {"attributes": 0x10, "producer_id": 7, "producer_epoch": 0}
        writer.append(encode(writer.next_offset, [("loyal-0", 60)], 0, **transactional))
    b = write("b", [(2, ("orders-0", 95))])
    text = say(a, b)
    assert text in say(a, b, "--until-time", str(COMMIT_TIME))
    assert "leader epoch 0, from 2026-11-21 10:16:40 UTC to 2026-11-21 10:16:40 UTC; 1 of them in transaction" in text
    assert "healed, now record" in text
    start = kg.load(LOG)["billing"].offsets[kg.TopicPartition("orders", 0)].offset
    assert f"{start} at the fork: if its consumer restarted, it read {90 - start} twice" in text


def test_a_lost_deletion_is_not_healed_and_a_later_one_is_new(write):
    a = write("a", [(0, ("orders-0", None))])
    b = write("b", [(1, ("orders-1", None))])
    found = kg.compare_replicas(a, b).to_json()
    assert [pair[0] for pair in found["offsets"]["billing"].values()].count(None) == 1
    assert found["healed"]["offsets"]["billing"] == {"orders-0": False, "orders-1": True}


def test_a_deletion_that_a_later_commit_undoes_is_not_healed(write, say):
    """a deletes the offset of loyal-0, and b commits it again. The group is back, although somebody deleted it."""
    start = write("start", [(0, ("loyal-0", 64, "alerts"))])
    a = write("a", [(0, ("loyal-0", None, "alerts"))], start)
    b = write("b", [(2, ("loyal-0", 66, "alerts"))], start)
    result = kg.compare_replicas(a, b)
    assert result.healed()["offsets"]["alerts"] == {"loyal-0": False}
    (change,) = [each for each in result.changes[9] if each.table == "offsets"]
    assert change.healing is Healing.BACK
    words = say(a, b).split()
    assert {"back:", "deleted", "committed", "again"} <= {*words} and "healed:" not in words


def test_a_deletion_on_both_replicas_is_not_one_deletion(write, say, monkeypatch):
    """Each replica has its own tombstones after the fork, and b has deleted loyal-0 twice."""
    start = write("start", [(0, ("loyal-0", 64, "alerts"), ("loyal-1", 65, "alerts"))])
    end = end_of(start)
    a = write("a", [(0, ("loyal-0", None, "alerts"), ("loyal-1", None, "alerts"))], start)
    b = write("b", [(2, ("loyal-0", None, "alerts")), (2, ("loyal-0", 66, "alerts"), ("loyal-1", 70, "alerts"))], start)
    with LogWriter(b) as writer:
        writer.append(encode(writer.next_offset, [("loyal-0", None, "alerts")], 2))
    monkeypatch.setenv("COLUMNS", "300")
    text = say(a, b)
    both = f"none on both, 64 before the fork; deleted on a (9:{end}) and on b (9:{end}, 9:{end + 3})"
    assert f"alerts loyal-0 {both} the same on a and b" in text
    assert "alerts loyal-1 none → 70 back: a deleted it, and b committed it again" in text


@pytest.mark.parametrize("control_type", [1, 0])
def test_a_lost_marker_is_not_healed(write, say, control_type):
    """Only a has the marker, so the commit of producer 7 hangs on b."""
    start = write("start")
    transactional = {"attributes": 0x10, "producer_id": 7, "producer_epoch": 0}
    with LogWriter(start) as writer:
        writer.append(encode(writer.next_offset, [("loyal-0", 50)], 0))
        writer.append(encode(writer.next_offset, [("loyal-0", 60)], 0, **transactional))
    a = write("a", (), start)
    with LogWriter(a) as writer:
        marker = LogRecord(writer.next_offset, COMMIT_TIME, b"\0\0\0" + bytes([control_type]), bytes(6))
        writer.append(
            encode_batch([marker], partition_leader_epoch=0, attributes=0x30, producer_id=7, producer_epoch=0)
        )
    b = write("b", [(2, ("orders-2", 92))], start)
    changes = kg.compare_replicas(a, b).changes[9]
    (pending,) = [change for change in changes if change.table == "pending" and change.key == "loyal-0"]
    assert not pending.is_healed and "only a ended the" in say(a, b)


def test_a_replica_that_lags_behind_has_lost_nothing(write):
    end = end_of(LOG)
    b = write("b", [(0, ("orders-0", 90), ("orders-1", 91))])
    found = kg.compare_replicas(LOG, b).to_json()
    assert found["fork"] == {"9": {"offset": end, "leader_epochs": [None, 0], "a_only": 0, "b_only": 2}}
    assert found["truncation"] == {"9": {"newer": "b", "offset": end}}  # The end of a: it truncates nothing.
    assert all(found["healed"]["offsets"]["billing"].values())


def list_cleaner_passes():
    """Yield the log before and after the passes of a broker's cleaner, for each case without appends in between."""
    for case in sorted((captured("cleaner") / "cleaner").glob("*/*")):
        folders = {folder.name for folder in case.iterdir() if any(folder.glob("*.log"))}
        if not any(name.startswith("before-pass-") for name in folders):
            passes = sorted(folders - {"before"})
            yield from ((case / "before", case / after) for after in passes if "before" in folders)


def test_a_replica_that_only_one_brokers_cleaner_cleaned_has_no_fork():
    """Every pass of a real cleaner that was captured: superseded records, tombstones, aborted transactions, markers."""
    count = 0
    for before, after in list_cleaner_passes():
        with cases.case(f"{before.parent.name} {after.name}"):
            log = kg.open_log(before)
            cleaned = kg.open_log(after)
            assert find_fork(log, cleaned) is None and find_fork(cleaned, log) is None
            count += 1
    assert count > 50


def test_a_fork_is_found_behind_records_that_one_replica_cleaned(write):
    logs = [DATA / "cleaning" / name / "__consumer_offsets-38" for name in ("before-clean", "after-clean")]
    ends = [kg.load(log).partitions[38].next_offset for log in logs]
    assert ends[0] == ends[1] and len(list(kg.open_log(logs[0]))) > len(list(kg.open_log(logs[1])))
    a = write("a", [(9, ("orders-0", 90))], start=logs[0])
    b = write("b", [(10, ("orders-0", 60))], start=logs[1])
    assert kg.compare_replicas(a, b).to_json()["fork"] == {
        "9": {"offset": ends[0], "leader_epochs": [9, 10], "a_only": 1, "b_only": 1}
    }


def test_a_record_before_one_of_both_is_no_fork(write, say):
    """b lacks the only commit of new-0, but has the record behind it. A cleaner removes a commit and its tombstone."""
    a = write("a", [(0, ("new-0", 5)), (0, ("orders-0", 90))])
    end = end_of(LOG)
    b = write("b")
    with LogWriter(b) as writer:
        writer.append(encode(end + 1, [("orders-0", 90)], 0))
    for sides, kept in (((a, b), "5 → none only a"), ((b, a), "none → 5 only b")):
        assert kg.compare_replicas(*sides).forks == {}
        text = say(*sides)
        assert f"billing new-0 {kept} still has record {end}" in text and "(delete.retention.ms)" in text


def test_a_follower_that_lags_behind_a_cleaned_leader_has_no_fork_before_its_end(write, say):
    """The cleaner of a has removed all that b has fetched: only the brokers' files say that both had the same."""
    a, b = (write(name, [(0, ("new-0", 5)), (0, ("orders-0", 90))]) for name in "ab")
    end = end_of(b)
    (segment,) = a.glob("*.log")
    segment.write_bytes(encode(end, [("orders-0", 95)], 1))
    assert kg.compare_replicas(a, b).forks[9].offset < end
    for side, epochs in ((a, f"2\n0 0\n1 {end}\n"), (b, "1\n0 0\n")):
        (side / "leader-epoch-checkpoint").write_text(f"0\n{epochs}")
    for sides, kept in (((a, b), "none → 5 only b"), ((b, a), "5 → none only a")):
        fork = kg.compare_replicas(*sides).forks[9]
        assert fork.offset == end and {fork.a.only, fork.b.only} == {1, 0}
        text = say(*sides)
        assert f"ends at offset {end}, and" in text and f"keeps its records, and fetches from offset {end} on" in text
        assert f"billing new-0 {kept} still has record {end - 2}" in text


def test_a_log_ends_at_its_last_segment(write, say):
    """The cleaner of b has emptied the segment with the last deletion, so a broker still has its end in a file name."""
    a = write("a", [(0, ("new-0", 5)), (0, ("new-0", None))])
    b = write("b")
    (b / f"{end_of(a):020}.log").touch()
    assert kg.compare_replicas(a, b).forks == {} == kg.compare_replicas(b, a).forks
    assert "ends at offset" not in say(a, b)


def test_the_checkpoint_of_leader_epochs_decides_the_truncation(write):
    """The broker's own file knows an epoch of which the cleaner left no batch."""
    end = end_of(LOG)
    a = write("a", [(3, ("orders-0", 90)), (3, ("orders-1", 91))])
    b = write("b", [(4, ("orders-0", 95))])
    assert kg.compare_replicas(a, b).truncations[9].offset == end
    (b / "leader-epoch-checkpoint").write_text(f"0\n2\n0 0\n4 {end - 2}\n")
    assert kg.compare_replicas(a, b).truncations[9].offset == end - 2
    (b / "leader-epoch-checkpoint").write_text("0\n9\n0 0\n")  # Damaged: the batches decide again.
    assert kg.compare_replicas(a, b).truncations[9].offset == end


@pytest.mark.parametrize(
    ("follower", "follower_end", "leader", "leader_end", "expected"),
    [
        ([(0, 0)], 10, [(0, 0)], 15, 10),  # It only lags behind.
        ([(0, 0)], 15, [(0, 0), (1, 12)], 20, 12),  # KIP-101: to the end of its epoch on the leader.
        ([(0, 0)], 10, [(0, 0), (1, 12)], 20, 10),  # The leader's epoch 0 is longer.
        ([(0, 0), (1, 10)], 20, [(0, 0), (2, 10)], 30, 10),  # KIP-279: the leader has no epoch 1.
        ([(0, 0), (2, 10)], 20, [(0, 0), (1, 5), (3, 8)], 30, 5),  # KIP-279: the follower has no epoch 1, so two steps.
        ([(1, 0)], 10, [(2, 0)], 10, 0),  # No common epoch.
        ([], 10, [(0, 0)], 10, None),  # Before 0.11: the high watermark, which is not in the log.
        ([(3, 0)], 10, [(0, 0)], 10, None),
    ],
)
def test_a_returning_follower_truncates_to_the_end_of_its_epoch(follower, follower_end, leader, leader_end, expected):
    assert find_truncation_offset(follower, follower_end, leader, leader_end) == expected


ELECTION = Path(__file__).parent / "unclean_election"
"""Two brokers of Kafka 4.3.1, captured around an unclean leader election. The follower was killed. The leader committed
three offsets more (old-leader), and was killed, too. The follower became the leader, and committed two other offsets
(new-leader). Then the old leader came back as a follower (returned, and its log lines in server-lines.txt)."""


def test_an_unclean_election_of_real_brokers():
    """The broker itself says where it truncates. Each commit was answered NONE by the leader of that moment."""
    found = kg.compare_replicas(ELECTION / "old-leader", ELECTION / "new-leader").to_json()
    line = (ELECTION / "server-lines.txt").read_text()
    said = int(re.search(r"Truncating partition __consumer_offsets-0 with TruncationState\(offset=(\d+),", line)[1])
    assert found["truncation"] == {"0": {"newer": "b", "offset": said}}
    assert found["fork"] == {"0": {"offset": said, "leader_epochs": [0, 2], "a_only": 3, "b_only": 2}}
    committed = {
        group: [pair and pair["offset"] for pair in pairs["orders-0"]] for group, pairs in found["offsets"].items()
    }
    assert committed == {"billing": [50, 60], "shipping": [7, 5], "audit": [1, None], "mailer": [None, 3]}
    healed = {group: answers["orders-0"] for group, answers in found["healed"]["offsets"].items()}
    assert healed == {"billing": True, "shipping": False, "audit": False, "mailer": True}


def test_the_returned_broker_has_the_log_of_the_new_leader():
    """What the truncation predicts: after it, the replicas are equal."""
    assert kg.compare_replicas(ELECTION / "returned", ELECTION / "new-leader").forks == {}


def test_both_engines_give_the_same_comparison():
    logs = [ELECTION / "old-leader", ELECTION / "new-leader"]
    found = [kg.compare_replicas(*logs, engine=engine).to_json() for engine in ("python", "auto")]
    assert found[0] == found[1]


def test_a_topic_that_was_created_again_has_no_replicas(write, say):
    """`partition.metadata` of both sides has other ids, so `fork` is null, and none is called newer."""
    first = "zNwyTrpuQFqZxWoTUVtO6Q"
    second = "b8lXXzhVRd2EtPj2mQnJ0Q"
    a = write("a", [(1, ("orders-0", 50))])
    b = write("b", [(2, ("orders-0", 60))])

    for side, topic_id in ((a, first), (b, first)):
        (side / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    same = json.loads(say(a, b, "--json"))
    assert same["topic_ids"] == [first, first] and same["fork"]["9"]["leader_epochs"] == [1, 2]
    (b / "partition.metadata").write_text(f"version: 0\ntopic_id: {second}")
    found = json.loads(say(a, b, "--json"))
    assert found["topic_ids"] == [first, second] and found["fork"] is None
    text = say(a, b)
    assert "created again" in text and "newer replica" not in text
    (b / "partition.metadata").unlink()
    assert json.loads(say(a, b, "--json"))["topic_ids"] is None


def test_a_leader_that_has_written_nothing_is_the_newer_replica(write):
    """LeaderEpochFileCache.assign: an election is stored at the end of the log, before the first record (4.3.1)."""
    a = write("a")
    b = write("b", [(0, ("orders-0", 60))])
    end = end_of(a)
    truncation = kg.compare_replicas(a, b).truncations[9]
    assert (truncation.newer, truncation.is_elected, truncation.reverse) == ("b", False, end)
    (a / "leader-epoch-checkpoint").write_text(f"0\n2\n0 0\n3 {end}\n")
    truncation = kg.compare_replicas(a, b).truncations[9]
    assert (truncation.newer, truncation.is_elected, truncation.offset) == ("a", True, end)


def test_without_an_election_the_text_says_both_futures(write, say):
    a = write("a")
    b = write("b", [(0, ("orders-0", 60))])
    text = say(a, b)
    assert "do not say which replica was elected last" in text
    assert f"When a follows b, it keeps its records, and fetches from offset {end_of(a)} on." in text
    assert f"When b follows a, it truncates its log to offset {end_of(a)}, and loses 1 record." in text


def test_logs_of_two_partitions_have_nothing_lost_or_healed(tmp_path, run):
    """Somebody exchanged folders: no record agrees, so no row says what became of it after a fork."""
    sides = [tmp_path / name / LOG.name for name in "ab"]
    for side, number in zip(sides, (9, 8), strict=True):
        shutil.copytree(LOG.with_name(f"__consumer_offsets-{number}"), side)
    text = " ".join(run("diff", *sides)[1].split())
    assert "no record agrees, so a and b are probably logs of two partitions and no replicas of one" in text
    assert "after the fork" not in text
