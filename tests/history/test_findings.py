"""What `stats` finds wrong with a log, how far the log was cleaned, and who wrote it."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

import kafkagroups as kg
from kafkagroups import stats, synth
from kafkagroups.cli import main
from tests.captured import captured
from tests.cases import case
from tests.groups.test_load_runs import DATA
from tests.handmade import (
    LogRecord,
    classic_member,
    commit_record,
    encode_batch,
    encode_end_transaction_marker,
    flip_bit,
    generation,
    write_batches,
)
from tests.history.logs import DAY, ENGINES, START, commit, find, find_and_check, rules_of, write, write_each
from tests.history.test_static_members import FENCED_GROUP

RETENTION_GROUPS = {
    "2.3.1-expiry": ("simple-keep", "simple-exp, simple-partial"),
    "2.3.1-small": ("ret",),
    "2.8.2-basic": ("expl-ret",),
    "3.9.2-expiry": ("g-retention",),
    "3.9.2-main": ("d-retention",),
    "4.0.2-main": ("d-retention",),
    "4.3.1-expiry": ("g-retention",),
    "4.3.1-main": ("d-retention",),
}
"""By captured run since KIP-211, for each partition: the groups that committed with a retention time, on purpose."""


def kinds(path, **options):
    return [finding.kind for finding in find(path, **options)]


def test_logs_of_healthy_brokers_have_no_findings():
    """Every captured run, except those with records that no Kafka wrote: only what was done on purpose is found.

    That is what was committed with a retention time (since KIP-211), transactions that were left open, and skips.
    """
    runs = captured("runs") / "runs"
    healthy = 0
    early = {}
    for path in sorted(path for path in runs.glob("*/*") if path.is_dir() and "craft" not in path.parent.name):
        run = path.parent.name
        with case(path):
            rules = rules_of(run.partition("-")[0])
            partitions = stats(path, **rules).partitions
            of_kind = {}
            for finding in find(path, **rules):
                if finding.group != FENCED_GROUP:
                    of_kind.setdefault(finding.kind, []).append(finding)
            if "early_expiry" in of_kind:
                early[run] = {each.what.partition("(")[2].partition(")")[0] for each in of_kind.pop("early_expiry")}
            # The runs of the cleaner set t-0 of eight groups from 903 or 503 to 99999, which is a skip.
            skips = {each.group for each in of_kind.pop("skipped_records", ())}
            assert not skips or ("compaction" in run and skips <= {f"k-{n}" for n in range(8)})
            # A member of e-member is alive while a transaction with its offsets is left open for about 20 s.
            assert {each.group for each in of_kind.pop("open_transaction", ())} <= {"e-member"}
            now = max(partition.last_timestamp_ms or 0 for partition in partitions.values())
            left_open = {
                (number, transaction.first_offset)
                for number, partition in partitions.items()
                for transaction in partition.open_transactions
                if now - transaction.since_ms >= 60_000
            }
            assert {(each.partition, each.offset) for each in of_kind.pop("hanging_transaction", ())} == left_open
            assert of_kind == {}
            healthy += not left_open
    assert healthy > 20
    assert early == {run: set(texts) for run, texts in RETENTION_GROUPS.items()}


def test_a_commit_with_a_producer_but_no_transaction_is_pending_without_end():
    """Source: answers.json. 4.3.1 answers UNSTABLE_OFFSET_COMMIT for t-idem, and 3.9.2 returns the offset."""
    path = DATA.parent / "crafted" / "t-idem"
    answers = json.loads((path.parent / "answers.json").read_text())["t-idem"]
    (group,) = answers["groups"]
    assert answers["new"]["stable"][group]["t-0"]["error"] == "UNSTABLE_OFFSET_COMMIT"
    assert "error" not in answers["classic"]["stable"][group]["t-0"]
    (finding,) = find_and_check(path)
    assert (finding.kind, finding.partition, finding.offset) == ("endless_pending_commit", 267, 0)
    assert (finding.group, finding.topic_partition) == (group, "t-0")
    assert finding.remedy.endswith(
        "abort --topic __consumer_offsets --partition 267 --producer-id 7 --producer-epoch 0 --coordinator-epoch 0"
    )
    for engine in ENGINES:
        assert finding in kg.check(path, "classic", "3.9.2", to="4.3.1", engine=engine).findings
    assert find(path, coordinator="classic") == []


@pytest.mark.parametrize(
    ("name", "expected"), [("t-idem-over", ["t-0"]), ("t-idem-tomb", ["t-1"]), ("t-idem-marker", [])]
)
def test_what_ends_a_commit_that_is_pending_without_end(name, expected):
    """A marker of the producer and a tombstone end it. A commit without a producer id before it does not."""
    path = captured("crafted") / "crafted" / "logs" / name
    assert [finding.topic_partition for finding in stats(path).findings] == expected


def test_a_hanging_transaction_comes_with_the_command_that_ends_it(tmp_path):
    """The run 3.9.2-expiry: nobody ends the transaction of group g-pending (actions.jsonl), which is open for 61 s."""
    log = captured("runs") / "runs" / "3.9.2-expiry" / "log"
    early, finding = find(log, coordinator="classic")
    assert (early.kind, early.group) == ("early_expiry", "g-retention")
    assert "will expire before the default of 7 days" in early.what, "the log does not have the broker's setting"
    assert (finding.partition, finding.offset, finding.group) == (3, 9, "g-pending")
    assert "cleaner" not in finding.what, "the only segment is the active one, which is not cleaned anyway"
    edit = ["--commit", "g-pending:orders-0=1@9999999999999", "--roll"]
    assert main(["edit", str(log / "__consumer_offsets-3"), "--out", str(tmp_path), *edit]) == 0
    (later,) = (each for each in find(tmp_path, coordinator="classic") if each.kind == "hanging_transaction")
    assert later.offset == 9 and "The cleaner cannot pass it" in later.what
    command = "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic __consumer_offsets"
    assert finding.remedy.endswith(f"{command} --partition 3 --start-offset 9")
    assert finding.to_json()["command"] == [*command.split(), "--partition", "3", "--start-offset", "9"]
    assert (finding.advice + " " + finding.command_line) == finding.remedy


@pytest.mark.parametrize(
    ("kafka", "words"),
    [
        ("2.8.2", "--start-offset 2"),
        ("2.7.2", "--producer-id 7 --producer-epoch 3 --coordinator-epoch 29"),
        ("1.0.1", "--producer-id 7 --producer-epoch 3 --coordinator-epoch 29"),
    ],
)
def test_the_command_names_what_the_brokers_of_a_release_need(kafka, words, tmp_path):
    """DescribeProducers, which finds the producer, came with 2.8; the marker has the coordinator's epoch
    (TransactionsCommandTest.testOldBrokerAbortTransactionWithUnknownCoordinatorEpoch)."""
    marker = LogRecord(1, START, b"\0\0\0\1", encode_end_transaction_marker(29))
    batches = [
        in_transaction([commit(0, START, version=1)], 3),
        encode_batch([marker], attributes=0x30, producer_id=7, producer_epoch=3),
        in_transaction([commit(2, START, version=1)], 3),
        encode_batch([commit(3, START + 61_000, group="other", version=1)]),
    ]
    (finding,) = find(write(tmp_path, batches), coordinator="classic", kafka=kafka)
    assert finding.command_line.endswith(f"abort --topic __consumer_offsets --partition 0 {words}")


def in_transaction(records, epoch, marker=None, time=START):
    """The batch of a transaction of producer 7; with `marker` (0 abort, 1 commit), a control batch."""
    if marker is not None:
        key = b"\0\0\0" + bytes([marker])
        records = [LogRecord(records, time, key, b"\0\0\0\0\0\0")]
    attributes = 0x10 if marker is None else 0x30
    return encode_batch(records, attributes=attributes, producer_id=7, producer_epoch=epoch)


@pytest.mark.parametrize(
    ("name", "marker", "marker_epoch", "late_epoch", "late_ms", "end_ms", "found"),
    [
        ("a late commit", 0, 3, 3, 400, 17_000, ["hanging_transaction"]),
        ("still young", 0, 3, 3, 400, 9_000, []),
        ("the next transaction of a producer that works", 1, 3, 3, 400, 17_000, []),
        ("aborted by the coordinator, so the producer is fenced", 0, 4, 4, 400, 17_000, []),
        ("the next producer of the same transactional id", 0, 3, 4, 400, 17_000, []),
        ("began long after the abort", 0, 3, 3, 31_000, 60_000, []),
    ],
)
def test_a_commit_after_the_end_of_its_transaction_is_found(
    name, marker, marker_epoch, late_epoch, late_ms, end_ms, found, tmp_path
):
    """KIP-890: before Kafka 4.0, a TxnOffsetCommit that is late opens a transaction that no coordinator ends."""
    batches = [
        in_transaction([commit(0, START)], 3),
        in_transaction(1, marker_epoch, marker),
        in_transaction([commit(2, START + late_ms)], late_epoch),
        encode_batch([commit(3, START + end_ms, group="other")]),
    ]
    findings = find(write(tmp_path, batches))
    assert [finding.kind for finding in findings] == found
    if findings:
        assert (findings[0].offset, findings[0].group) == (2, "g")
        assert "offset 1, which aborted another transaction" in findings[0].what
        assert findings[0].remedy.endswith("--partition 0 --start-offset 2")


def test_the_log_tells_how_far_kafkas_cleaner_has_cleaned(tmp_path):
    """Kafka's own passes in order: the next dirty offset, unless a full offset map stopped a pass earlier."""
    equal = 0
    for path in sorted(captured("cleaner").glob("cleaner/cases/*/case.json")):
        description = json.loads(path.read_text())
        passes = [one for one in description["passes"] if "now_ms" in one]
        is_full = any(one["next_dirty"] < one["first_uncleanable"] for one in passes)
        next_dirty = 0
        for number, one in enumerate(passes, start=1):
            next_dirty = max(next_dirty, one.get("next_dirty") or 0)
            folder = path.parent / f"after-pass-{number}"
            if is_full or not list(folder.glob("*.log")):
                continue
            with case((path.parent.name, number)):
                (partition,) = stats(folder).partitions.values()
                assert partition.cleaned_up_to is None or partition.cleaned_up_to <= next_dirty
                equal += partition.cleaned_up_to == next_dirty
    assert equal > 60


@pytest.mark.parametrize("days", [0, 3])
def test_the_delete_horizon_tells_when_the_log_was_cleaned(days, tmp_path):
    """A pass sets the horizon to its own time plus delete.retention.ms (MemoryRecords.filterTo)."""
    records = [commit(0, START), replace(commit(1, START), value=None), commit(2, START, partition=1)]
    folder = write(tmp_path, [encode_batch([record]) for record in records], segment_bytes=150)
    kg.compact(folder, tmp_path / "out" / folder.name, kg.CleanerConfig(now_ms=START + days * DAY))
    (partition,) = stats(tmp_path / "out" / folder.name).partitions.values()
    assert partition.last_cleaned_ms == START + days * DAY
    assert partition.cleaned_up_to == partition.first_uncleanable_offset == 2
    (before,) = stats(folder).partitions.values()
    assert (before.cleaned_up_to, before.last_cleaned_ms) == (None, None)


@pytest.mark.parametrize(
    ("written", "ranges"),
    [
        (
            [(0, 1), (0, 1), (0, 3), (0, 3), (0, 1)],
            [(0, 1, "0.9 – 2.0"), (2, 3, "2.1 – 4.0"), (4, 4, "0.9 – 2.0")],
        ),
        # The tombstone has the leader epoch of the newer broker.
        ([(0, 1), (1, None), (1, 3)], [(0, 0, "0.9 – 2.0"), (1, 2, "2.1 – 4.0")]),
        ([(0, 1), (0, None), (1, 3)], [(0, 1, "0.9 – 2.0"), (2, 2, "2.1 – 4.0")]),
        # A broker that wrote only a tombstone can be the older or the newer version.
        ([(0, 1), (1, None), (2, 3)], [(0, 0, "0.9 – 2.0"), (1, 1, "0.9 – 2.0 or 2.1 – 4.0"), (2, 2, "2.1 – 4.0")]),
        ([(0, 1), (1, None), (2, 1), (3, 3)], [(0, 2, "0.9 – 2.0"), (3, 3, "2.1 – 4.0")]),
    ],
)
def test_ranges_of_writers_begin_where_the_versions_or_leader_epochs_change(written, ranges, tmp_path):
    """A broker of another version has started again, and each election has its own epoch (Partition.makeLeader)."""
    batches = []
    for offset, (epoch, version) in enumerate(written):
        record = commit(offset, START, version=version or 1)
        record = replace(record, value=record.value if version else None)
        batches.append(encode_batch([record], partition_leader_epoch=epoch))
    path = write(tmp_path, batches)
    for engine in ENGINES:
        found = stats(path, engine=engine).partitions[0].written_by_ranges
        assert [(part.first, part.last, part.versions) for part in found] == ranges


@pytest.mark.parametrize(
    ("versions", "place"),
    [
        ([3, 1, 1, 3], "1 to 2"),
        ([3, 1, 3, 3, 1, 1, 3], "1, 4 to 5"),
        ([3, 1, 3, 1], "1"),
        ([1, 3, 3], ""),
        ([3, 1], ""),
    ],
)
def test_older_records_between_newer_ones_are_a_sign_of_another_program(versions, place, tmp_path):
    """A script wrote records of an older form into a topic of a 4.3.1 broker, which went on with its own form."""
    records = [commit(offset, START, version=version) for offset, version in enumerate(versions)]
    findings = find(write_each(tmp_path, records))
    assert [(finding.kind, finding.offset) for finding in findings] == ([("foreign_records", 1)] if place else [])
    assert all(f"Another program may have written the records at {place} into" in each.what for each in findings)


def test_a_log_that_the_cleaner_left_out_is_found(tmp_path):
    """Two days of commits of one key in closed segments, and no trace of a pass. After a pass, it is healthy."""
    batches = [encode_batch([commit(offset, START + offset * DAY // 50)]) for offset in range(100)]
    folder = write(tmp_path, batches, segment_bytes=1000)
    (finding,) = find(folder)
    assert finding.kind == "uncleaned"
    assert finding.what.startswith(
        "The log cleaner has stopped, or it cannot clean this partition (no trace of a pass)"
    )
    (tmp_path / "follow.json").touch()
    assert kinds(folder) == [], "a folder of pull --follow keeps what the cleaner of the brokers removes"
    kg.compact(folder, tmp_path / "out" / folder.name)
    assert kinds(tmp_path / "out" / folder.name) == []


@pytest.mark.parametrize(
    ("seconds_of_other", "end_s", "has_marker", "is_found"),
    [
        (600, 1200, False, True),
        (
            100,
            1200,
            False,
            False,
        ),  # The other one was closed no later, so min.compaction.lag.ms can hold this one back.
        (600, 300, False, False),  # The copy of this one can be older than the pass.
        (600, 1200, True, False),  # A transaction can have stopped the cleaner.
        (2000, 2100, True, True),
    ],
)
def test_a_partition_that_the_cleaner_left_out_is_compared_with_the_others(
    seconds_of_other, end_s, has_marker, is_found, tmp_path
):
    """LogCleanerManager.grabFilthiestCompactedLog (3.9.2): the cleaner begins with the log of the largest dirty share.

    So a log that was never cleaned, with a share of 1, comes before one that has been cleaned.
    """
    batches = [encode_batch([commit(offset, START + offset * 1000)]) for offset in range(100)]
    if has_marker:
        batches[50] = in_transaction(50, 7, marker=1, time=START + 50_000)
    batches.append(encode_batch([commit(100, START + end_s * 1000)]))
    path = write(tmp_path / "topic", batches, segment_bytes=3000)
    every_ms = seconds_of_other * 10
    other = [encode_batch([commit(offset, START + offset * every_ms, group="h")]) for offset in range(101)]
    dirty = write(tmp_path, other, segment_bytes=3000, partition=1)
    kg.compact(dirty, path.parent / dirty.name)
    findings = find(path.parent)
    assert [(each.kind, each.partition) for each in findings] == [("uncleaned", 0)] * is_found
    assert kg.check(path.parent).findings == findings
    if is_found:
        assert "(no trace of a pass): it has not cleaned 3 closed segments" in findings[0].what
        assert "or later, the cleaner ran over partition 1." in findings[0].what
    assert find(path) == []


@pytest.mark.parametrize(("interval_ms", "found"), [(5000, []), (200, ["busy_group"]), (100, [])])
def test_a_group_that_commits_after_each_record_for_five_minutes_is_found(interval_ms, found, tmp_path):
    records = [commit(offset, START + offset * interval_ms) for offset in range(2_000)]
    assert kinds(write_each(tmp_path, records)) == found


def test_writers_are_told_apart_by_the_form_of_their_batches(tmp_path):
    """Each second a commit of two offsets, and each 10 s one in a transaction."""
    batches = []
    offset = 0
    for second in range(100):
        time = START + second * 1000
        batches.append(encode_batch([commit(offset, time), commit(offset + 1, time, partition=1)]))
        offset += 2
        if second % 10 == 0:
            batches += [in_transaction([commit(offset, time)], 0), in_transaction(offset + 1, 0, marker=1, time=time)]
            offset += 2
    path = write(tmp_path, batches)
    for engine in ENGINES:
        found = stats(path, "writer", engine=engine)
        plain, transactional = sorted(found.writers, key=lambda writer: -writer.commits)
        assert (plain.transactional, plain.records_per_batch, plain.commits) == (False, 2, 100)
        assert (plain.interval_ms, plain.commits_per_minute) == (1000, 60)
        assert (transactional.transactional, transactional.commits, transactional.records) == (True, 10, 10)
        assert (transactional.interval_ms, transactional.commits_per_minute) == (10_000, 6)


@pytest.mark.parametrize(
    ("seconds", "times", "day"),
    [
        ((0, 10), "22:13:20 22:13:30", " of 2023-11-14."),
        ((0, 86_400), "11-14 22:13 11-15 22:13", "."),
        ((0, 86_400, 86_430), "11-14 22:13:20 11-15 22:13:50", "."),
    ],
)
def test_the_writers_table_shows_seconds_where_they_tell_times_apart(seconds, times, day, tmp_path, run):
    """The times are those of the records. In the last case, another writer begins in the minute of the last commit."""
    groups = ["g", "h", "g"] if len(seconds) == 3 else ["g", "g"]
    batches = [
        encode_batch([commit(offset, START + second * 1000, group=group)])
        for offset, (second, group) in enumerate(zip(seconds, groups, strict=True))
    ]
    _, out, _ = run("stats", write(tmp_path, batches), "--by", "writer")
    text = " ".join(out.split())
    assert f" {times} " in text and f"Times: UTC{day} " in text


def write_throw_away_groups(folder, groups, offsets, more=()):
    """Write a commit of each group for each of the offsets, as a test does that uses a new group for each run."""
    commits = [[commit_record(number, number, "orders", group=group) for number in range(offsets)] for group in groups]
    return write_batches(folder, [(0, records) for records in (*commits, *more)], 0)


RUNS = [f"e2e-checkout-{number:012x}" for number in range(50)]


def test_groups_that_differ_only_in_a_random_part_are_one_finding(tmp_path):
    """50 groups with 24 offsets each hold the log, as in a topic in which each test run left a group behind."""
    path = write_throw_away_groups(tmp_path, RUNS, 24, [[commit_record(0, group="billing")]])
    for by in ("group", "topic", "writer"):
        (finding,) = find(path, by=by)
        assert (finding.kind, finding.partition, finding.group) == ("group_family", 0, None)
        assert "50 groups named e2e-checkout-… have no members" in finding.what
        assert "hold 1200 of 1201 live records (99 %)" in finding.what
        assert finding.remedy.startswith("A group that still commits (kafkagroups timeline) is in use."), "with assign"


@pytest.mark.parametrize(
    ("groups", "offsets"),
    [
        (RUNS[:19], 60),  # too few groups
        (RUNS, 19),  # too few records
        ([f"team-{name}" for name in ("red", "blue", "green")], 400),  # no part that differs at random
    ],
)
def test_other_groups_are_no_family(groups, offsets, tmp_path):
    assert kinds(write_throw_away_groups(tmp_path, groups, offsets)) == []


def test_a_family_needs_most_of_the_live_records(tmp_path):
    """The other group has as many offsets as all groups of the family together."""
    one = [commit_record(number, number, "orders", group="big") for number in range(1200)]
    assert kinds(write_throw_away_groups(tmp_path, RUNS, 24, [one])) == []


def test_a_family_counts_the_group_records_of_its_groups_too(tmp_path):
    """698 groups with one offset each and a record of the empty group, as a published directory has them."""
    names = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(698)]
    path = write_throw_away_groups(tmp_path, names, 1, [[generation(2, group=name)] for name in names])
    (finding,) = find(path)
    assert "698 groups with a random name have no members. They hold 1396 of 1396 live records (100 %)" in finding.what


def test_damage_and_a_failing_load_are_found(tmp_path):
    """A torn batch ends the log; value version 9 of the run 1.0.1-craft-a makes Kafka's load of partition 0 fail."""
    folder = write_each(tmp_path, [commit(offset, START) for offset in range(3)])
    (segment,) = folder.glob("*.log")
    segment.write_bytes(segment.read_bytes()[:-1])
    (damage,) = find(folder)
    assert (damage.kind, damage.partition, damage.offset) == ("damage", 0, 2)
    assert "no readable batch in the" in damage.what
    log = captured("runs") / "runs" / "1.0.1-craft-a" / "log"
    found = [each for each in find(log, coordinator="classic") if each.kind != "early_expiry"]
    assert [(finding.kind, finding.partition) for finding in found] == [("load_failure", 0)]
    assert "expected a version from 0 to 4, found 9" in found[0].what
    assert "No release that this package knows loads this log." in found[0].remedy


def test_a_group_with_few_large_commits_is_found(tmp_path):
    """offset.metadata.max.bytes is 4096 by default, so a program can keep its state in the metadata of its commits."""
    forms = [("busy", "") if number % 5 else ("state", "x" * 3900) for number in range(200)]
    records = [commit(n, START + n, group=name, metadata=metadata) for n, (name, metadata) in enumerate(forms)]
    (finding,) = find(write_each(tmp_path, records))
    assert (finding.kind, finding.group) == ("large_commits", "state")
    assert "with 40 of 200 records" in finding.what
    assert "orders-0 has the longest metadata: 3900 characters, with offset 195." in finding.what


def test_a_finding_about_large_commits_names_the_offset_whose_metadata_grew_to_the_limit(tmp_path):
    """That of a real broker stood still at 4020 of 4096 characters, and the group's other partitions moved on."""
    sizes = [(2 if n < 140 and n % 2 else 0, 1200 + 20 * n if n < 140 and n % 2 else 1500) for n in range(160)]
    records = [commit(n, START + n, partition=number, metadata="x" * size) for n, (number, size) in enumerate(sizes)]
    (finding,) = find(write_each(tmp_path, records), "large_commits")
    assert "orders-2 has the longest metadata: 3980 characters, with offset 139." in finding.what
    assert "offset.metadata.max.bytes (4096 by default)" in finding.remedy


def test_large_commits_without_metadata_name_no_offset(tmp_path):
    """Many members make the group's own records large."""
    members = [classic_member(f"member-{number}-of-a-large-group") for number in range(40)]
    generations = [LogRecord(n, START + n, *kg.encode(generation(n, *members))) for n in range(1, 80)]
    (finding,) = find(write_each(tmp_path, [commit(0, START), *generations]), "large_commits")
    assert "metadata" not in finding.what


def test_segments_that_retention_has_deleted_are_found():
    """A broker of 3.9.2 with cleanup.policy=delete and retention.ms=15000 has deleted the segments before 120."""
    log = Path(__file__).parent / "deleted_segments" / "__consumer_offsets-4"
    (finding,) = find(log, coordinator="classic")
    assert (finding.kind, finding.partition, finding.offset) == ("deleted_segments", 4, 120)
    assert "The log begins at offset 120" in finding.what and "cleanup.policy=compact" in finding.remedy


def test_segments_that_are_missing_between_others_are_found():
    """Somebody removed the file of the offsets 92 to 166 while the 4.3.1 broker was stopped; its cleaner never ran."""
    log = Path(__file__).parent / "deleted_segments" / "between" / "__consumer_offsets-2"
    (finding,) = find_and_check(log)
    assert (finding.kind, finding.partition, finding.offset) == ("deleted_segments", 2, 167)
    assert "missing, and not by a cleaning of these files" in finding.what and "another replica" in finding.remedy
    assert kg.stats(log).partitions[2].cleaned_up_to is None
    (gap,) = [event.what for event in kg.timeline(log, "month-end").events if event.event == "gap"]
    assert gap.startswith(
        "75 records missing in 92 to 166, and not by a cleaning of these files, which would have removed 2:69"
    )


def test_a_failing_load_names_the_releases_that_load_the_log_and_what_a_cut_loses(tmp_path):
    """Offset value version 4 begins with Kafka 3.4.1 (OffsetCommitValue.json); 2.8.2 refuses it."""
    records = [commit(offset, START, group=f"g{offset}", version=3 + offset % 2) for offset in range(4)]
    (finding,) = find(write_each(tmp_path, records), coordinator="classic", kafka="2.8.2")
    assert (finding.kind, finding.offset) == ("load_failure", 1)
    assert "the classic coordinator of 3.9.2 and the new coordinator of 3.9.2 to 4.4.0." in finding.remedy
    assert "--cut 1), but it loses 3 records of g1, g2, g3." in finding.remedy


def test_damage_in_the_middle_is_found_with_what_would_be_lost(tmp_path):
    """With past_damage, the gap is a finding too."""
    folder = write_each(tmp_path, [commit(offset, START, group=f"g{offset}") for offset in range(4)])
    (segment,) = folder.glob("*.log")
    size = segment.stat().st_size // 4
    flip_bit(segment, 2 * size - 1)
    (damage,) = find(folder)
    assert (damage.kind, damage.offset) == ("damage", 1)
    assert "2 readable batches with 2 records of g2, g3" in damage.what
    assert "--past-damage" in damage.remedy
    (gap,) = find(folder, past_damage=True)
    assert (gap.kind, gap.partition, gap.offset) == ("damage", 0, 1)
    assert f"byte {size}: {size} damaged bytes are skipped" in gap.what
    assert "offset 1 is missing" in gap.what


def test_a_changed_partition_count_is_found(tmp_path):
    """Groups commit in their home partitions of 2 partitions, and later in those of 3 (Kafka: partitionFor)."""
    groups = [f"group-{number}" for number in range(12)]
    logs = {number: [] for number in range(3)}
    for count, time in ((2, START), (3, START + 60_000)):
        for group in groups:
            records = logs[kg.partition_for(group, count)]
            records.append(commit(len(records), time, group=group))
    for number, records in logs.items():
        write_each(tmp_path, records, number)
    (finding,) = find(tmp_path)
    moved = [group for group in groups if kg.partition_for(group, 2) != kg.partition_for(group, 3)]
    assert (finding.kind, finding.partition) == ("partition_count_changed", None)
    assert "changed from 2 to 3, at the latest at 2023-11-14 22:14:20 UTC" in finding.what
    assert f"{len(moved)} groups moved to another partition" in finding.what
    moves = [f"{group} ({kg.partition_for(group, 2)} → {kg.partition_for(group, 3)})" for group in moved]
    assert ", ".join(sorted(moves)) in finding.what


@pytest.mark.parametrize(("kafka", "found"), [("4.0.1", True), ("4.0.2", False), ("4.1.0", True), ("4.1.1", False)])
def test_a_large_log_with_transactions_can_take_the_heap_of_some_releases(kafka, found, tmp_path, monkeypatch):
    """KAFKA-19716, fixed in 4.0.2 and 4.1.1: a load keeps every state of the groups until its end."""
    monkeypatch.setattr("kafkagroups.history.load_rules.LARGE_LOAD_RECORDS", 1000)
    synth.write(tmp_path, 1000, groups=50, partitions=1, transactional=0.5, seed=7)
    assert ("load_memory" in kinds(tmp_path, kafka=kafka)) == found
    verdict = kg.check(tmp_path, kafka="4.3.1", to=kafka)
    assert ("load_memory" in [finding.kind for finding in verdict.findings]) == found
    monkeypatch.setattr("kafkagroups.history.load_rules.LARGE_LOAD_RECORDS", 2000)
    assert "load_memory" not in kinds(tmp_path, kafka=kafka)
