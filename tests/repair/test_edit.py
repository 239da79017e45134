"""`edit`, `append`, `roll` and `cut`: what a load answers after an edit, and which records an edit appends.

The expectations come from captured runs of real brokers: a run is cut before a broker's batch, the same change is made
by an edit, and the result is compared with the run that goes on.
"""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import TopicPartition
from kafkagroups.loading.groups import group_json, offsets_json, pending_json
from kafkagroups.log.cleaner import ProducerStates, add_batch, read_marker
from tests.captured import captured
from tests.cases import case
from tests.handmade import read_batches

ROOT = Path(__file__).parents[2]
HARBOUR = ROOT / "data" / "harbour"
CLASSIC = HARBOUR / "3.9.2" / "__consumer_offsets-9"
COORDINATORS = ("classic", "new")


def logs_of(*families):
    """The folders of partitions of captured runs that have segments."""
    folders = [folder for family in families for folder in captured(family).rglob("__consumer_offsets-*")]
    folders += HARBOUR.glob("*/__consumer_offsets-*")
    return sorted(folder for folder in folders if any(folder.glob("*.log")))


def answers(path, coordinator, until=None):
    """What a load answers: groups, offsets and pending commits, also of orphans."""
    groups = kg.load(path, coordinator, until=until)
    known = {name: (group_json(group), *offsets_of(group)) for name, group in groups.items()}
    return set(groups.failed), known, {name: offsets_of(orphan) for name, orphan in groups.orphans.items()}


def offsets_of(holder):
    return offsets_json(holder.offsets), pending_json(holder.pending)


def read_records(path, first):
    """Type, key, whether it is a tombstone, and the batch's sequence number of each record from an offset on."""
    found = []
    for batch in kg.open_log(path):
        for record in () if batch.is_control else batch.records:
            if record.offset >= first:
                decoded = kg.decode(record.key, record.value)
                found.append((record.offset, decoded.type, decoded.key, record.value is None, batch.base_sequence))
    return found


@pytest.mark.slow
def test_a_roll_changes_no_answer_and_new_batches_follow_the_end(tmp_path):
    """A new empty segment at the log's end changes no answer, and the segments before it stay byte for byte.

    Then offsets go on, and the leader epoch of the log's last batch stays.
    """
    for number, path in enumerate(logs_of("crafted", "runs", "v440")):
        rolled, appended = (tmp_path / str(number) / name / path.name for name in ("rolled", "appended"))
        with case(path):
            result = kg.roll(path, rolled)
            for coordinator in COORDINATORS:
                assert answers(rolled, coordinator) == answers(path, coordinator)
            if result.damage is None:
                for file in path.glob("*.log"):
                    copied = (rolled / file.name).read_bytes()
                    whole = file.read_bytes()
                    assert whole.startswith(copied) and not whole[len(copied) :].strip(b"\0")
            result = kg.append(rolled, appended, commit="g:t-0=1@5")
            *batches, new = kg.open_log(appended)
            assert new.base_offset == result.steps[0].first_offset
            for last in batches[-1:]:
                assert new.base_offset >= last.next_offset
                assert new.partition_leader_epoch == max(0, last.partition_leader_epoch)
    assert number > 300


@pytest.mark.slow
def test_a_marker_ends_pending_commits_as_in_captured_runs(tmp_path):
    """An appended marker gives the answers that the log gives with the marker of the broker."""
    count = 0
    for path in logs_of("runs", "v440"):
        states = ProducerStates()
        for batch in kg.open_log(path):
            state = states.producers.get(batch.producer_id)
            if batch.is_control and batch.count and state is not None and state.txn_first_offset is not None:
                kind = read_marker(batch).name.lower()
                out = tmp_path / str(count) / path.name
                count += 1
                with case((path, batch.base_offset)):
                    kg.edit(path, out, [("cut", batch.base_offset), ("marker", f"{kind}:{batch.producer_id}")])
                    for coordinator in COORDINATORS:
                        assert answers(out, coordinator) == answers(path, coordinator, batch.base_offset + 1)
            add_batch(states, batch)
    assert count > 50


def find_deletions():
    """The deletions of groups in captured runs: folder, group, first and next offset of the broker's records."""
    for file in sorted(captured("runs").rglob("actions.jsonl")):
        for action in map(json.loads, file.read_text().splitlines()):
            match = re.search(r'"op": "del\w*groups", "groups": \["([^"]+)"\]', action["action"])
            for partition, (first, last) in action["wrote"].items() if match else ():
                folders = sorted(file.parent.rglob(f"__consumer_offsets-{partition}"))
                before = [folder for folder in folders if folder.parent.name == "before-clean"]
                yield (before or folders)[0], match[1], first, last


def test_tombstones_of_a_deleted_group_are_those_of_the_broker(tmp_path):
    """Record by record, in the broker's order, for classic, simple, consumer, share and streams groups."""
    types = set()
    for number, (path, group, first, last) in enumerate(find_deletions()):
        broker = path.parent.parent.name
        out = tmp_path / str(number) / path.name
        with case((broker, group)):
            # The deletion of a share group begins with a value of type 15, which is not a tombstone.
            expected = [row for row in read_records(path, first) if row[0] < last and row[3]]
            if broker.startswith("4.3.1-next") and group == "i-streams-deleted":
                expected = [row for row in expected if row[1] != 16]
            start = expected[0][0]
            # In this partition of 4.0.2, nothing before the deletion tells that the new coordinator wrote it.
            coordinator = "new" if broker.startswith("4.") else "classic"
            kg.edit(path, out, [("cut", start), ("delete-group", group)], coordinator=coordinator)
            assert read_records(out, start) == expected
            types |= {row[1] for row in expected}
    assert types >= {1, 2, 3, 4, 6, 11, 12, 15, 17, 20, 23}


@pytest.mark.parametrize("run", ["3.9.2-main", "4.3.1-main", "4.3.1-next", "1.0.1-basic", "2.8.2-basic"])
def test_the_writer_of_a_log_is_found(run, tmp_path):
    """A commit has the value version, and a tombstone the sequence number, that this broker writes."""
    versions = {"1.0.1": 1, "2.8.2": 3, "3.9.2": 3, "4.3.1": 4}
    release = run.partition("-")[0]
    path = max(captured("runs").glob(f"runs/{run}/log/__consumer_offsets-*"), key=lambda log: len(read_records(log, 0)))
    result = kg.append(path, tmp_path / "out", commit="g:t-0=5", tombstone="g:t-0")
    *_, committed, tombstone = read_batches_of(tmp_path / "out")
    assert int.from_bytes(committed.records[0].value[:2], "big") == versions[release]
    assert committed.base_sequence == 0
    assert tombstone.base_sequence == (0 if release == "4.3.1" else -1)
    assert [step.first_offset for step in result.steps] == [committed.base_offset, tombstone.base_offset]


def read_batches_of(path):
    return [batch for file in sorted(path.glob("*.log")) for batch in read_batches(file.read_bytes())]


def test_a_commit_has_the_topic_id_of_the_log(tmp_path):
    """4.3.1 stores the topic id in each commit outside a transaction. A new commit repeats it."""
    for path in captured("runs").glob("runs/4.3.1-main/log/__consumer_offsets-*"):
        for key, topic_id in commits_with_topic_id(path):
            kg.append(path, tmp_path / "out", commit=f"{key.group}:{key.topic}-{key.partition}=7")
            loaded = kg.load(tmp_path / "out")[key.group].offsets[TopicPartition(key.topic, key.partition)]
            assert (loaded.offset, loaded.topic_id) == (7, topic_id)
            return
    raise AssertionError("no commit with a topic id")


def commits_with_topic_id(path):
    for batch in kg.open_log(path):
        for record in () if batch.is_control or batch.is_transactional else batch.records:
            decoded = kg.decode(record.key, record.value)
            if decoded.type == 1 and decoded.value_version == 4:
                yield decoded.key, decoded.value.topic_id


def test_each_commit_is_answered_by_a_load(tmp_path):
    """A commit replaces the committed offset, and has the newest timestamp of the log, or the given one."""
    newest = max(batch.max_timestamp for batch in kg.open_log(CLASSIC))
    kg.append(CLASSIC, tmp_path / "out", commit=["billing:invoices-0=42", "new:group:orders-1-7=-1@12", ":t-(-3)=9"])
    for coordinator in COORDINATORS:
        groups = kg.load(tmp_path / "out", coordinator)
        billing = groups["billing"].offsets[TopicPartition("invoices", 0)]
        other = groups["new:group"].offsets[TopicPartition("orders-1", 7)]
        nameless = groups[""].offsets[TopicPartition("t", -3)]
        assert (billing.offset, billing.commit_timestamp) == (42, newest)
        assert (other.offset, other.commit_timestamp, nameless.offset) == (-1, 12, 9)


@pytest.mark.parametrize("offset", [0, 1, 3, 20, 44, 100])
def test_a_cut_removes_whole_batches(tmp_path, offset):
    """As UnifiedLog.truncateTo: the batches whose last offset is below the offset stay."""
    kept = [batch.base_offset for batch in kg.open_log(CLASSIC) if batch.last_offset < offset]
    result = kg.cut(CLASSIC, tmp_path / "out", offset)
    assert [batch.base_offset for batch in kg.open_log(tmp_path / "out")] == kept
    assert result.next_offset == max([0, *(batch.next_offset for batch in read_batches_of(tmp_path / "out"))])


def test_a_cut_at_a_time_is_the_moment_of_until_time(tmp_path):
    """`load --until-time` and a cut at this time give the same answers."""
    path = HARBOUR / "4.3.1" / "__consumer_offsets-9"
    for number, batch in enumerate(kg.open_log(path)):
        out = tmp_path / str(number)
        kg.cut(path, out, time=batch.max_timestamp - 1)
        groups = kg.load(path, until_time=batch.max_timestamp - 1)
        left = kg.load(out)
        assert {name: offsets_of(group) for name, group in left.items()} == {
            name: offsets_of(group) for name, group in groups.items()
        }
    assert number > 10


def test_a_cut_below_the_first_segment_starts_the_log_anew(tmp_path):
    """As UnifiedLog.truncateFullyAndStartAt: one empty segment remains, and the next batch begins at the offset."""
    late = tmp_path / "late"
    late.mkdir()
    (late / "00000000000000000007.log").touch()
    kg.append(late, tmp_path / "log", commit="g:t-0=5@1")
    result = kg.cut(tmp_path / "log", tmp_path / "cut", 3)
    assert (result.segments, result.next_offset, result.steps[0].removed.records) == ((3,), 3, 1)
    result = kg.edit(tmp_path / "log", tmp_path / "out", [("cut", 3), ("commit", "g:t-0=6@1")])
    assert (result.segments, result.next_offset) == ((3,), 4)


def test_a_cut_names_the_transactions_that_it_opens(tmp_path):
    """Without its marker, a transaction is open, and its commits are pending again."""
    markers = [batch for batch in kg.open_log(CLASSIC) if batch.is_control]
    assert len(markers) == 3
    for marker in markers:
        out = tmp_path / str(marker.base_offset)
        result = kg.cut(CLASSIC, out, marker.base_offset)
        pending = {producer for group in kg.load(out, "classic").values() for producer in group.pending}
        assert pending == {marker.producer_id}
        assert f"these producers with open transactions: {marker.producer_id}." in result.steps[0].what


def find_first_passes():
    """The captured cases of Kafka's cleaner whose first pass begins at the start of a log of magic 2."""
    for file in sorted(captured("cleaner").rglob("case.json")):
        first = json.loads(file.read_text())["passes"][0]
        is_cleaned = "pass" in first and first["error"] is None and not first["clean_bytes"]
        if is_cleaned and all(batch.magic == 2 for batch in kg.open_log(file.parent / "before")):
            yield file.parent, first


def test_a_pass_leaves_what_compact_leaves(tmp_path):
    """tests/log/test_cleaner.py compares `compact` with Kafka's cleaner."""
    for folder, first in list(find_first_passes())[::3]:
        outs = [tmp_path / folder.name / name for name in ("edited", "compacted")]
        with case(folder.name):
            edited = kg.edit(folder / "before", outs[0], [("clean", first["now_ms"])])
            compacted = kg.compact(folder / "before", outs[1], kg.CleanerConfig(first["now_ms"]))
            assert edited.steps[0].compaction == compacted
            assert content_of(outs[0]) == content_of(outs[1])


def content_of(folder):
    """Segment, header and records of each batch. Snappy has several encodings of the same records."""
    batches = kg.open_log(folder)
    return [
        (
            Path(batch.file).name,
            batch.records,
            replace(batch, crc=0, position=0, data=b"", file=None),
        )
        for batch in batches
    ]


def read_files(folder):
    """The bytes of each segment."""
    return {file.name: file.read_bytes() for file in folder.glob("*.log")}


@pytest.mark.slow
def test_passes_are_a_schedule(tmp_path):
    """The second pass begins where the first ended, and removes what `compact` removes with this --first-dirty."""
    day = 86_400_000
    differences = 0
    for number, (folder, first) in enumerate(find_first_passes()):
        times = first["now_ms"], first["now_ms"] + 2 * day
        once, rolled, twice, out = (tmp_path / f"{name}-{number}" for name in ("once", "rolled", "twice", "out"))
        with case(folder.name):
            steps = [("clean", times[0]), "roll", ("clean", times[1])]
            try:
                compaction = kg.compact(folder / "before", once, kg.CleanerConfig(now_ms=times[0]))
                first_dirty = compaction.next_dirty_offset if compaction.groups else None
                kg.roll(once, rolled)
                kg.compact(rolled, twice, kg.CleanerConfig(now_ms=times[1], first_dirty=first_dirty))
            except kg.InvalidLog:  # Kafka's cleaner fails, too.
                with pytest.raises(kg.InvalidLog):
                    kg.edit(folder / "before", out, steps)
                assert not any(out.iterdir())
                continue
            result = kg.edit(folder / "before", out, steps)
            assert read_files(out) == read_files(twice)
            assert result.steps[0].compaction == compaction
        differences += read_files(rolled) != read_files(twice)
    assert differences > 10


def test_tombstones_go_in_the_second_pass_after_the_horizon(tmp_path):
    """A tombstone stays in the first pass, and goes in a pass after its delete horizon.

    Without the marker, the cleaner would stop at the open transaction of producer 1. Without a new dirty record, the
    second pass would clean nothing.
    """
    newest = max(batch.max_timestamp for batch in kg.open_log(CLASSIC))
    steps = [("marker", "abort:1"), ("delete-group", "billing"), "roll", ("clean", newest)]
    kg.edit(CLASSIC, tmp_path / "once", steps)
    kg.edit(CLASSIC, tmp_path / "twice", [*steps, ("commit", "g:t-0=1"), "roll", ("clean", newest + 90_000_000)])
    named = [
        sum(b"billing" in (record.key or b"") for batch in kg.open_log(tmp_path / out) for record in batch.records)
        for out in ("once", "twice")
    ]
    assert named[0] > 0 and named[1] == 0
    assert "billing" not in kg.load(tmp_path / "twice", "classic")


def test_a_deleted_group_with_members_is_gone(tmp_path):
    """The tombstones of a consumer, share or streams group with members can be loaded, and leave nothing of it."""
    deleted = set()
    for path in captured("runs").glob("runs/4.3.1-next/log/__consumer_offsets-*"):
        for name, group in kg.load(path).items():
            out = tmp_path / path.name / name
            with case((path.name, name)):
                kg.append(path, out, delete_group=name)
                left = kg.load(out)
                assert not left.failed and name not in left and name not in left.orphans
                deleted.add((group.type, bool(group.members)))
    assert deleted >= {("classic", True), ("consumer", True), ("share", True), ("streams", True), ("consumer", False)}


def test_a_group_whose_tombstone_would_make_the_log_unloadable_is_refused(tmp_path):
    """3.9.2's load fails with "Unexpected unload of active group" at a tombstone of a group with pending commits."""
    path = captured("runs") / "runs" / "3.9.2-main" / "log" / "__consumer_offsets-2"
    groups = kg.load(path, "classic")
    group = next(group for group in groups.values() if group.pending and group.generation)
    producers = list(group.pending)
    with pytest.raises(kg.UsageError, match="end the transaction first") as error:
        kg.append(path, tmp_path / "out", delete_group=group.group_id)
    assert str(producers[0]) in str(error.value)
    steps = [*(("marker", f"abort:{producer}") for producer in producers), ("delete-group", group.group_id)]
    kg.edit(path, tmp_path / "out", steps)
    left = kg.load(tmp_path / "out", "classic")
    assert not left.failed and group.group_id not in left


def test_a_deletion_needs_a_log_that_loads(tmp_path):
    """Tombstones behind the record at which the load fails are never read."""
    path = captured("crafted") / "crafted" / "logs" / "b25c" / "__consumer_offsets-39"
    with pytest.raises(kg.UsageError, match="group g cannot be deleted, because the load of the log fails"):
        kg.append(path, tmp_path / "out", delete_group="g")
    kg.edit(path, tmp_path / "out", [("cut", 1), ("commit", "g:t-0=1")])
    assert not kg.load(tmp_path / "out").failed


def test_the_input_is_never_changed(tmp_path):
    before = {file: file.read_bytes() for file in CLASSIC.iterdir()}
    steps = [("cut", 30), ("commit", "g:t-0=1"), "roll", ("delete-group", "billing"), ("clean", 1)]
    kg.edit(CLASSIC, tmp_path / "out", steps)
    assert {file: file.read_bytes() for file in CLASSIC.iterdir()} == before


def test_a_damaged_log_is_cut_as_a_recovery_does(tmp_path):
    """Only what is before the first wrong checksum is copied, and the damage is in the result."""
    path = tmp_path / "__consumer_offsets-9"
    path.mkdir()
    (segment,) = CLASSIC.glob("*.log")
    data = bytearray(segment.read_bytes())
    batches = list(read_batches(bytes(data)))
    data[batches[3].position + 30] ^= 1
    (path / segment.name).write_bytes(data)
    result = kg.append(path, tmp_path / "out", commit="g:t-0=1")
    assert result.steps[0].first_offset == batches[3].base_offset
    assert result.damage.position == batches[3].position
    assert result.to_json()["damage"]["offset"] == batches[3].base_offset


def test_a_tail_of_zeros_is_not_copied(tmp_path):
    path = tmp_path / "__consumer_offsets-9"
    path.mkdir()
    (segment,) = CLASSIC.glob("*.log")
    (path / segment.name).write_bytes(segment.read_bytes() + bytes(4096))
    result = kg.append(path, tmp_path / "out", commit="g:t-0=1")
    assert result.damage is None and kg.load(tmp_path / "out")["g"].offsets[TopicPartition("t", 0)].offset == 1


def find_open_producer():
    """A log of 3.9.2 in which a transaction is open, and its producer."""
    for path in captured("runs").glob("runs/3.9.2-main/log/__consumer_offsets-*"):
        for group in kg.load(path, "classic").values():
            for producer_id in group.pending:
                return path, producer_id
    raise AssertionError("no open transaction")


def test_a_second_marker_is_refused(tmp_path):
    path, producer_id = find_open_producer()
    marker = f"abort:{producer_id}"
    with pytest.raises(kg.UsageError, match=f"producer {producer_id} has no open transaction"):
        kg.append(path, tmp_path / "out", marker=[marker, marker])
    assert not any((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([], "at least one step"),
        (["commit"], "commit: expected GROUP:TOPIC-PARTITION=OFFSET"),
        ([("commit", "g:t-0")], "expected GROUP:TOPIC-PARTITION=OFFSET"),
        ([("commit", "g:t=5")], "commit: expected a topic and a partition such as orders-0, found 't'"),
        ([("commit", "t-0=5")], "expected GROUP:TOPIC-PARTITION=OFFSET"),
        ([("commit", "g:t-0=5@soon")], "expected a whole number"),
        ([("commit", "g:t-0=5@-1")], "expected GROUP:TOPIC-PARTITION=OFFSET"),
        ([("commit", f"g:t-0={2**63}")], "9223372036854775808"),
        ([("commit", f"g:t-{2**31}=5")], "2147483648"),
        ([("commit", f"{'g' * 40_000}:t-0=5")], "40000"),
        ([("tombstone", "g")], "expected GROUP:TOPIC-PARTITION"),
        ([("delete-group", "nobody")], "no group nobody, as the classic"),
        ([("marker", "commit")], "expected commit:PRODUCER_ID"),
        ([("marker", "end:4")], "expected commit:PRODUCER_ID or abort:PRODUCER_ID"),
        ([("marker", "abort:4")], "producer 4 has no open transaction in the log (open: 1)"),
        ([("cut", -1)], "cut: expected OFFSET, found -1"),
        ([("roll", "now")], "expected no text"),
        ([("clean", -1)], "now_ms: expected a number from 0"),
        ([("sweep", 1)], "no step 'sweep'"),
        ([("cut", 1, 2)], "expected a step, for example"),
        ([5], "expected a step, for example"),
    ],
)
def test_refused_steps(steps, reason, tmp_path):
    """One line says what was expected, and the folder stays empty."""
    with pytest.raises(kg.UsageError) as error:
        kg.edit(CLASSIC, tmp_path / "out", steps)
    assert reason in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())


def test_refused_folders(tmp_path):
    """`out` is new or empty, and outside the log. A folder of partitions is no partition."""
    with pytest.raises(kg.UsageError, match="outside"):
        kg.roll(CLASSIC, CLASSIC / "out")
    (tmp_path / "file").touch()
    with pytest.raises(kg.UsageError, match="new or empty"):
        kg.roll(CLASSIC, tmp_path)
    with pytest.raises(kg.UsageError, match="one partition"):
        kg.roll(HARBOUR / "3.9.2", tmp_path / "out")
    assert not (CLASSIC / "out").exists()


def test_the_writer_can_be_chosen(tmp_path):
    """With `kafka`, a commit has this version's layout, and a deletion this coordinator's tombstones."""
    kg.append(CLASSIC, tmp_path / "new", commit="g:t-0=1", kafka="4.1")
    *_, batch = kg.open_log(tmp_path / "new")
    assert batch.records[0].value[:2] == b"\0\4"
    kg.edit(tmp_path / "new", tmp_path / "out", [("delete-group", "g")], coordinator="new")
    assert [row[1] for row in read_records(tmp_path / "out", batch.next_offset)] == [1, 2]
    kg.edit(tmp_path / "new", tmp_path / "old", [("delete-group", "g")], coordinator="classic")
    assert [row[1] for row in read_records(tmp_path / "old", batch.next_offset)] == [1]
    with pytest.raises(kg.UsageError, match="no classic coordinator"):
        kg.append(CLASSIC, tmp_path / "no", commit="g:t-0=1", coordinator="classic", kafka="4.0")


def test_a_log_without_timestamps_needs_a_time(tmp_path):
    """Magic 0 has no timestamps, and an empty log has none either."""
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "00000000000000000007.log").touch()
    with pytest.raises(kg.UsageError, match="no timestamp"):
        kg.append(empty, tmp_path / "out", commit="g:t-0=1")
    result = kg.append(empty, tmp_path / "out", commit="g:t-0=1@5")
    assert (result.start_offset, result.next_offset) == (7, 8)
