"""The incidents of lesson 14: their pages, their logs, their questions and their worked solutions.

What a broker answers from these logs is in tests/broker/test_incidents.py.
"""

import hashlib
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import UsageError, course
from kafkagroups.course.exercises.catalog import EXERCISES
from kafkagroups.course.exercises.incidents import incident as incident_module
from kafkagroups.course.exercises.incidents.incident import CONCLUSIONS, INCIDENTS, SEED, find_incident
from tests.cases import first_quickly
from tests.handmade import ControlType, GroupMetadataKey, decode_control_key

pytestmark = pytest.mark.slow

NAMES = [incident.name for incident in INCIDENTS]
HOUR_MS = 3_600_000
CHECK_INTERVAL_MS = 10 * 60_000
DELETE_RETENTION_MS = 24 * HOUR_MS
"""Kafka's defaults of offsets.retention.check.interval.ms and delete.retention.ms."""


def server_lines(incident):
    """The lines between the marks of the Markdown block."""
    return incident.server_log.splitlines()[1:-1]


@pytest.fixture(params=INCIDENTS, ids=NAMES)
def incident(request):
    return request.param


def hash_segments(folder):
    files = sorted(folder.rglob("*.log"))
    assert files
    return [(str(file.relative_to(folder)), hashlib.sha256(file.read_bytes()).hexdigest()) for file in files]


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_bytes(incident, tmp_path):
    """Two writes with one seed are equal."""
    incident.write(tmp_path / "a", SEED)
    incident.write(tmp_path / "b", SEED)
    assert hash_segments(tmp_path / "a") == hash_segments(tmp_path / "b")


def test_the_folder_has_a_log_and_a_page(incident, write_log):
    """The page has the complaint, the lines of the server's log and every question."""
    folder = write_log(incident.name)
    page = (folder / "symptoms.md").read_text(encoding="utf-8")
    assert incident.complaint.strip() in page
    for line in server_lines(incident):
        assert line in page
    for text, exercise in incident.questions.items():
        assert text in page
        assert exercise.name in page
    assert (incident.chart is None) or (folder / "chart.svg").read_text(encoding="utf-8").startswith("<svg")
    for replica in incident.replicas:
        assert kg.load(folder / replica, coordinator="new", kafka="4.3.1")


def test_every_step_of_a_worked_solution_is_read(incident):
    """A step with a mistake in its form is no step."""
    page = Path(incident_module.__file__).with_name(f"{incident.name}.md").read_text(encoding="utf-8")
    assert page.count("\n### ") == len(incident.worked_solution)
    assert all(step.lines for step in incident.worked_solution)


@pytest.mark.thorough
def test_the_worked_solution_shows_its_steps(incident, capsys):
    """Every command of a worked solution runs, and the lines that its step names are in its output."""
    course.show_worked_solution(incident.name)
    shown = capsys.readouterr().out
    for step in incident.worked_solution:
        assert f"$ {step.command}" in shown
    assert list(incident.conclusions) == list(CONCLUSIONS)
    for title, text in incident.conclusions.items():
        assert f"**{title}**\n\n{text}" in shown


def test_an_unknown_incident_has_a_clear_error():
    """The error lists the names."""
    with pytest.raises(UsageError, match="growing_partition"):
        course.open_incident("growing")


def test_a_file_in_the_place_of_the_folder_has_a_clear_error(tmp_path, monkeypatch):
    """The learner reads one line, and nothing is lost."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "incidents").write_text("mine")
    with pytest.raises(UsageError, match="incidents"):
        course.open_incident("growing_partition")
    assert (tmp_path / "incidents").read_text() == "mine"


def test_open_incident_shows_the_page(tmp_path, monkeypatch, capsys):
    """The folder is next to the notebook, and its path is short."""
    monkeypatch.chdir(tmp_path)
    assert str(course.open_incident("parse_errors")) == "incidents/05-parse-errors"
    shown = capsys.readouterr().out
    incident = find_incident("parse_errors")
    assert incident.complaint in shown
    assert next(iter(incident.questions)) in shown


def test_an_incident_that_is_opened_again_has_no_cleaned_copy(tmp_path, monkeypatch, capsys):
    """The cell of the lesson that writes the copy runs a second time. Other files of the learner stay."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        folder = course.open_incident("growing_partition")
        course.run_command("kafkagroups compact __consumer_offsets-12 --out cleaned/__consumer_offsets-12", folder)
        (folder / "notes.txt").write_text("mine")
    course.open_incident("growing_partition")
    assert (folder / "notes.txt").read_text() == "mine"
    assert [path.parent for path in folder.rglob("__consumer_offsets-*")] == [folder]


# The answers follow from the bytes. Each test reads the records itself.


def answer(name):
    return EXERCISES[name].correct


def read_records(folder):
    """Return the offset, the key, the value and the time of each record of a partition, without markers."""
    return [
        (record.offset, record.key, record.value, record.timestamp)
        for batch in kg.open_log(folder)
        if not batch.is_control
        for record in batch.records
    ]


def format_minute(time_ms):
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")


@pytest.mark.parametrize("seed", first_quickly([SEED, 1, 2]))
def test_growing_partition(seed, write_log):
    """The busy group has nine of ten bytes. A cleaner keeps one record for each key. No offset is missing."""
    folder = write_log("growing_partition", seed)
    records = read_records(folder / "__consumer_offsets-12")
    sizes = Counter()
    for _, key, value, _ in records:
        sizes[kg.decode(key, value).key.group] += len(key) + len(value)
    [(largest, size), *_] = sizes.most_common()
    assert largest == answer("growing_group")
    assert size > 0.9 * sizes.total()
    assert len({key for _, key, _, _ in records}) == answer("growing_live_records")
    assert [offset for offset, *_ in records] == list(range(len(records) + answer("growing_removed_records")))


@pytest.mark.parametrize("seed", first_quickly([SEED, 1, 2]))
def test_slow_failover(seed, write_log):
    """Both replicas have the same newest value of each key. Only the delete horizons tell when each was cleaned."""
    folder = write_log("slow_failover", seed)
    records = {}
    cleaned_on = {}
    for broker in ("broker-1", "broker-2"):
        log = folder / broker / "__consumer_offsets-44"
        records[broker] = read_records(log)
        horizons = [batch.delete_horizon_ms for batch in kg.open_log(log) if batch.delete_horizon_ms is not None]
        newest_pass = datetime.fromtimestamp((max(horizons) - DELETE_RETENTION_MS) / 1000, UTC)
        cleaned_on[broker] = newest_pass.date().isoformat()
    slow = max(records, key=lambda broker: len(records[broker]))
    assert len(records[slow]) == answer("slow_records")
    assert cleaned_on[slow] == answer("slow_last_cleaning") == min(cleaned_on.values())
    newest = [{key: value for _, key, value, _ in each} for each in records.values()]
    values = [{key: value for key, value in each.items() if value is not None} for each in newest]
    differences = [key for key in values[0] | values[1] if values[0].get(key) != values[1].get(key)]
    assert len(differences) == answer("slow_differences")
    assert records["broker-1"][-1] == records["broker-2"][-1]


@pytest.mark.parametrize("seed", first_quickly([SEED, 1, 2]))
def test_empty_monday(seed, write_log):
    """The retention begins when the group becomes Empty, and for a group without a record at each commit."""
    folder = write_log("empty_monday", seed)
    commits = {}
    tombstones = {}
    empty_since = {}
    groups_with_record = set()
    for _, key, value, time_ms in read_records(folder / "__consumer_offsets-30"):
        record = kg.decode(key, value)
        group = record.key.group
        if isinstance(record.key, GroupMetadataKey):
            groups_with_record.add(group)
            if value is not None and not record.value.members:
                empty_since.setdefault(group, []).append(record.value.current_state_timestamp)
            continue
        partition = (group, record.key.topic, record.key.partition)
        (commits if value is not None else tombstones).setdefault(partition, []).append(time_ms)
    (deleted_ms,) = {times[0] for (group, *_), times in tombstones.items() if group == "bread-print"}
    assert format_minute(deleted_ms) == answer("monday_deleted_at")
    hours = answer("monday_hours")
    closed_ms = max(time_ms for time_ms in empty_since["bread-print"] if time_ms < deleted_ms)
    assert 0 <= deleted_ms - hours * HOUR_MS - closed_ms < CHECK_INTERVAL_MS
    partial = answer("monday_partial")
    assert partial not in groups_with_record
    for partition, [time_ms] in tombstones.items():
        if partition[0] == partial:
            assert 0 <= time_ms - hours * HOUR_MS - commits[partition][-1] < CHECK_INTERVAL_MS
    groups_with_deletion = {group for group, *_ in tombstones}
    assert groups_with_deletion == {"bread-print", partial}
    groups_with_rest = {group for group, *rest in commits if (group, *rest) not in tombstones}
    assert groups_with_deletion & groups_with_rest == {partial}
    last_commits = {}
    for (group, *_), times in commits.items():
        last_commits[group] = max(last_commits.get(group, 0), times[-1])
    friday_evening_ms = deleted_ms - hours * HOUR_MS
    old = {group for group, time_ms in last_commits.items() if time_ms < friday_evening_ms}
    assert old == {answer("monday_kept")}


@pytest.mark.parametrize("seed", first_quickly([SEED, 1, 2]))
def test_lag_of_the_dead(seed, write_log):
    """A monitor that removes a group only at its group tombstone has one group too many."""
    folder = write_log("lag_of_the_dead", seed)
    shown = set()
    offsets = set()
    generations = {}
    group_tombstones = []
    deleted_on = {}
    for _, key, value, time_ms in read_records(folder / "__consumer_offsets-14"):
        record = kg.decode(key, value)
        group = record.key.group
        if isinstance(record.key, GroupMetadataKey):
            if value is None:
                shown.discard(group)
                generations.pop(group)
                group_tombstones.append((group, format_minute(time_ms)))
            else:
                generations[group] = record.value.generation
            continue
        offset = (group, record.key.topic, record.key.partition)
        if value is None:
            offsets.remove(offset)
            deleted_on[group] = format_minute(time_ms)
        else:
            offsets.add(offset)
            shown.add(group)
    groups_with_offsets = {group for group, *_ in offsets}
    dead = answer("dead_group")
    assert (len(shown), len(groups_with_offsets)) == (9, 8)
    assert shown - groups_with_offsets == {dead}
    deleted = {group for group, time in deleted_on.items() if time == "2026-03-10 17:40"} - groups_with_offsets
    assert len(deleted) == 3
    assert sum(time == "2026-03-10 17:40" for _, time in group_tombstones) == answer("dead_group_tombstones")
    assert [time for group, time in group_tombstones if group == dead] == ["2026-03-03 17:00"]
    assert generations.get(dead, 0) == answer("dead_generation")


@pytest.mark.parametrize("seed", first_quickly([SEED, 1, 2]))
def test_after_the_upgrade(seed, write_log):
    """Commits with an old expire timestamp are deleted at the first check, except those of a subscribed topic."""
    folder = write_log("after_the_upgrade", seed)
    commits = {}
    lost = {}
    for _, key, value, time_ms in read_records(folder / "__consumer_offsets-44"):
        record = kg.decode(key, value)
        if isinstance(record.key, GroupMetadataKey):
            continue
        name = (record.key.group, record.key.topic, record.key.partition)
        if value is None:
            lost[name] = (commits.pop(name), time_ms)
        else:
            commits[name] = record
    expired = {name: commit for name, (commit, time_ms) in lost.items() if 0 < commit.value.expire_timestamp <= time_ms}
    check_ms = min(time_ms for _, time_ms in lost.values())
    assert {name for name, (_, time_ms) in lost.items() if time_ms == check_ms} == set(expired)
    assert format_minute(check_ms) == "2026-03-09 06:10"
    assert len({group for group, *_ in expired}) == answer("upgrade_lost_groups")
    assert {commit.value_version for commit in expired.values()} == {answer("upgrade_version")}
    mail = expired["loyalty-mail", "members", 0].value
    assert format_minute(mail.expire_timestamp) == answer("upgrade_expiry")
    assert mail.expire_timestamp - mail.commit_timestamp == 24 * HOUR_MS
    [kept] = [name for name, commit in commits.items() if 0 < commit.value.expire_timestamp <= check_ms]
    assert kept == (answer("upgrade_kept_group"), "refunds", 0)
    [deleted] = set(lost) - set(expired)
    assert lost[deleted][0].value_version == 3


METADATA_AT = {1: 10, 3: 14}
"""The position of the metadata's length in a value, by the value version: after the offset, and the leader epoch."""
TIMES_SIZE = {1: 16, 3: 8}


def read_as_old_program(value):
    """Return the length of the metadata, and whether the rest fits. A program that knows no newer version than 3."""
    version = min(int.from_bytes(value[:2], "big"), 3)
    position = METADATA_AT[version]
    length = int.from_bytes(value[position : position + 2], "big")
    return length, position + 2 + length + TIMES_SIZE[version] == len(value)


@pytest.mark.parametrize("seed", first_quickly([SEED, 1, 2]))
def test_dark_monitor(seed, write_log):
    """An old reader fails at the first value of version 4 of each partition, and later only for some groups."""
    folder = write_log("dark_monitor", seed)
    first = {}
    unreadable_groups = set()
    last_commits = {}
    for partition in (9, 42):
        for offset, key, value, time_ms in read_records(folder / f"__consumer_offsets-{partition}"):
            group = kg.decode(key, value).key.group
            _, is_readable = read_as_old_program(value)
            if not is_readable:
                first.setdefault(partition, (offset, time_ms))
                unreadable_groups.add(group)
            last_commits[group] = (partition, time_ms, value)
    assert first[9][0] == answer("dark_first_offset")
    assert format_minute(first[42][1]) == answer("dark_second_start")
    readable = [
        group
        for group, (partition, time_ms, _) in last_commits.items()
        if partition == 9 and group not in unreadable_groups and format_minute(time_ms) >= "2026-03-17 11:29"
    ]
    assert readable == [answer("dark_readable_group")]
    _, _, value = last_commits["queue-view"]
    assert read_as_old_program(value) == (answer("dark_length"), False)


def read_as_commit_key(key):
    """Return the error of a program that reads every key as the key of a commit, or None."""
    rest = key[2:]
    for name in ("group", "topic"):
        if len(rest) < 2:
            return f"{name}: expected 2 bytes, found {len(rest)}"
        length = int.from_bytes(rest[:2], "big")
        rest = rest[2:]
        if len(rest) < length:
            return f"{name}: expected {length} byte, found {len(rest)}"
        rest = rest[length:]
    return None


@pytest.mark.parametrize("seed", first_quickly([SEED, 1, 2]))
def test_parse_errors(seed, write_log):
    """A program that does not skip control batches fails at each marker, with one message for commits and aborts."""
    folder = write_log("parse_errors", seed)
    errors = []
    group_of_producer = {}
    for batch in kg.open_log(folder / "__consumer_offsets-30"):
        for record in batch.records:
            error = read_as_commit_key(record.key)
            if error is not None:
                errors.append((record.offset, group_of_producer[batch.producer_id], error))
            elif batch.is_transactional:
                group_of_producer[batch.producer_id] = kg.decode(record.key, record.value).key.group
    offset, group, _ = errors[0]
    assert offset == answer("parse_first_offset")
    assert group == answer("parse_group")
    assert len(errors) == answer("parse_unreadable")
    messages = Counter(error for *_, error in errors)
    assert messages["topic: expected 2 bytes, found 0"] == answer("parse_second_message")
    assert {line.split("key version 0: ")[1] for line in server_lines(find_incident("parse_errors"))} == set(messages)


def follow_transactions(batches, group, *, deletes_pending=False, newest=None):
    """Return the committed offsets of a group and the pending ones of each producer, by topic-partition.

    Each offset is a pair: the offset of its record, and the committed offset. The later record wins (3.9:
    CommitRecordMetadataAndOffset.olderThan). `deletes_pending`: a tombstone also deletes pending offsets. A classic
    coordinator that runs does this (GroupMetadata.removeOffsets), and one that loads does not (doLoadGroupsAndOffsets).
    `newest`: the offset of the newest record of each key. A pass of the cleaner has removed all older records.
    """
    committed = {}
    pending = {}
    for batch in batches:
        if batch.is_control:
            ended = pending.pop(batch.producer_id, {})
            if batch.records and decode_control_key(batch.records[0].key) is ControlType.COMMIT:
                for name, commit in ended.items():
                    committed[name] = max(commit, committed.get(name, commit))
            continue
        for record in batch.records:
            key = kg.decode(record.key, record.value).key
            name = f"{key.topic}-{key.partition}"
            if key.group != group or (newest is not None and newest[record.key] != record.offset):
                continue
            if record.value is None:
                committed.pop(name, None)
                for offsets in pending.values() if deletes_pending else ():
                    offsets.pop(name, None)
                continue
            commit = (record.offset, kg.decode(record.key, record.value).value.offset)
            if batch.is_transactional:
                pending.setdefault(batch.producer_id, {})[name] = commit
            else:
                committed[name] = commit
    return committed, pending


@pytest.mark.parametrize("seed", first_quickly([SEED, 1, 2]))
def test_endless_unstable(seed, write_log):
    """Two transactions hang on the same topic-partitions. The first one stops the cleaner. Aborts lose no commit."""
    folder = write_log("endless_unstable", seed)
    log = kg.open_log(folder / "__consumer_offsets-44")
    batches = list(log)
    committed, pending = follow_transactions(batches, "receipt-totals")
    first_records = {producer_id: min(offsets.values())[0] for producer_id, offsets in pending.items()}
    hanging = [producer_id for producer_id, offsets in pending.items() if "receipts-3" in offsets]
    assert len(hanging) == answer("unstable_aborts")
    assert {tuple(pending[producer_id]) for producer_id in hanging} == {("receipts-2", "receipts-3")}
    first_producer = min(first_records, key=first_records.get)
    assert first_producer == answer("unstable_producer")
    _, import_pending = follow_transactions(batches, "price-export")
    assert [len(offsets) for offsets in import_pending.values()] == [1]
    assert min(import_pending.popitem()[1].values())[0] > max(first_records.values())

    bases = [int(Path(segment).stem) for segment in log.segments]
    assert sum(end > first_records[first_producer] for end in bases[1:]) == answer("unstable_segments")
    assert committed["receipts-3"][1] == answer("unstable_offset_after")
    for producer_id in hanging:  # Even a commit would not change the offset: later records won.
        assert pending[producer_id]["receipts-3"] < committed["receipts-3"]


@pytest.mark.parametrize("seed", first_quickly([SEED, 1, 2]))
def test_offset_goes_back(seed, write_log):
    """The offset that was deleted in a transaction comes back in a load. A pass removes its record for ever."""
    folder = write_log("offset_goes_back", seed)
    batches = list(kg.open_log(folder / "__consumer_offsets-30"))
    running, _ = follow_transactions(batches, "loyalty-ledger", deletes_pending=True)
    assert running["receipts-1"][1] == answer("back_race")
    assert "receipts-2" not in running
    loaded, _ = follow_transactions(batches, "loyalty-ledger")
    assert loaded["receipts-2"] == (answer("back_record"), 4870)
    assert {**running, "receipts-2": loaded["receipts-2"]} == loaded

    newest = {key: offset for offset, key, *_ in read_records(folder / "__consumer_offsets-30")}
    cleaned, _ = follow_transactions(batches, "loyalty-ledger", newest=newest)
    assert cleaned == running
    assert answer("back_before") == answer("back_cleaned") == -1  # What a broker answers if there is no offset.
