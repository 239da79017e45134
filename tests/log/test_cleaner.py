"""The log cleaner: the same result as Kafka 4.3.1's Cleaner on recorded logs, and rules that hold for any log."""

import itertools
import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import kafkagroups as kg
from kafkagroups import synth
from tests import cases
from tests.captured import captured
from tests.command import ask_json
from tests.handmade import (
    CONTROL,
    TRANSACTIONAL,
    CompressionType,
    ControlType,
    LogRecord,
    LogWriter,
    encode_batch,
    encode_control_key,
    encode_marker,
    message,
)

CASES = captured("cleaner") / "cleaner"
DAY = 86_400_000


PASSES = [
    (f"{path.parent.parent.name}/{path.parent.name}", step["pass"])
    for path in sorted(CASES.glob("*/*/case.json"))
    for step in json.loads(path.read_text())["passes"]
    if "pass" in step
]
"""Folder and number of every pass that Kafka's Cleaner ran."""


class Pass:
    """One recorded pass: the log before it, as files with their times, and the arguments of the same pass."""

    def __init__(self, case, number, folder):
        self.folder = CASES / case
        self.number = number
        self.case = json.loads((self.folder / "case.json").read_text())
        config = dict(self.case["config"])
        expired_before = None
        for step in self.case["passes"]:
            config |= step.get("config_change", {})
            if "expire_producers_at_ms" in step:
                expired_before = self.forgotten(step)
            if step.get("pass") == number:
                self.said = step
                break
        self.path = folder / "__consumer_offsets-0"
        self.out = folder / "out"
        self.write_log()
        now = self.said["now_ms"]
        self.config = kg.CleanerConfig(
            now_ms=now,
            delete_retention_ms=config["delete.retention.ms"],
            first_dirty=self.said["first_dirty"],
            first_uncleanable=self.said["uncleanable_offset"],
            segment_bytes=config["segment.bytes"],
            map_entries=int(self.said["map_slots"] * config.get("cleaner.io.buffer.load.factor", 0.9)),
            producer_expiration_ms=-1 if expired_before is None else now - expired_before,
        )

    def forgotten(self, step):
        """Producers whose last batch is older than this time had expired before the pass."""
        newest = max(batch["timestamp"] for batch in self.case["log"] if batch["before_pass"] <= step["before_pass"])
        return min(newest, step["expire_producers_at_ms"] - DAY) + 1

    def write_log(self):
        self.path.mkdir()
        earlier = [f"after-pass-{self.number - 1}", f"before-pass-{self.number}"] if self.number > 1 else ["before"]
        for folder in earlier:
            for file in sorted((self.folder / folder).glob("*.log")):
                shutil.copyfile(file, self.path / file.name)
        for segment in self.said["segments_before"]:
            time = segment["last_modified_ms"] * 1_000_000
            os.utime(self.path / f"{segment['base_offset']:020}.log", ns=(time, time))

    def stops_by_itself(self):
        """Whether the pass had no compaction lag, and a high watermark at the log's end."""
        said = self.said
        return (
            "min.compaction.lag.ms" not in self.case["config"]
            and said["high_watermark"] == said["log_end_offset"]
            and said["manager_cleanable_offsets"]["first_uncleanable"] == said["uncleanable_offset"]
        )

    def left(self):
        """Return the segments after Kafka's pass, as Kafka's classes read them."""
        return json.loads((self.folder / f"after-pass-{self.number}.json").read_text())["segments"]


def described(segment):
    """Return a segment in the format of after-pass-N.json, without fields that no batch header contains."""
    log = kg.open_log(segment)
    batches = [
        {
            "base_offset": batch.base_offset,
            "last_offset": batch.last_offset,
            "magic": batch.magic,
            "pid": batch.producer_id,
            "epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
            "attributes": batch.attributes,
            "delete_horizon_ms": batch.delete_horizon_ms,
            "partition_leader_epoch": batch.partition_leader_epoch,
            "base_timestamp": batch.base_timestamp,
            "max_timestamp": batch.max_timestamp,
            "record_count": batch.count,
            "records": [
                (r.offset, r.timestamp, *(None if part is None else part.hex() for part in (r.key, r.value)))
                for r in batch.records
            ],
            **({} if batch.compression is CompressionType.SNAPPY else {"size": batch.size, "crc": batch.crc}),
        }
        for batch in log
    ]
    assert log.damage is None
    return batches


def said_batch(batch):
    """Return a batch of after-pass-N.json with the keys of `described`."""
    names = "base_offset last_offset magic pid epoch base_sequence attributes delete_horizon_ms partition_leader_epoch"
    names += " base_timestamp max_timestamp record_count" + (" size crc" * (batch["compression"] != "snappy"))
    row = {name: batch[name] for name in names.split()}
    if batch["magic"] < 2:  # messages outside a cleaned segment: a header without these fields
        row["base_timestamp"] = -1
        row["record_count"] = 1
    row["records"] = [(r["offset"], r["timestamp"], r["key_hex"], r["value_hex"]) for r in batch["records"]]
    return row


def new_folder(tmp_path, case, number):
    folder = tmp_path / case / str(number)
    folder.mkdir(parents=True)
    return folder


def test_a_pass_gives_the_same_log_as_kafkas_pass(tmp_path):
    """Segments, batches, records, checksums, file times, groups and the next dirty offset, at every recorded pass.

    Where Kafka's LogCleanerManager found the end of the pass itself, at the active segment or an open transaction, it
    is found here, too.
    """
    stopped_by_itself = 0
    for case, number in PASSES:
        with cases.case(f"{case}, pass {number}"):
            recorded = Pass(case, number, new_folder(tmp_path, case, number))
            check_pass(recorded)
            if recorded.stops_by_itself():
                stopped_by_itself += 1
                done = kg.compact(
                    recorded.path, recorded.out.with_name("2"), replace(recorded.config, first_uncleanable=None)
                )
                assert (done.next_dirty_offset, done.groups) == (recorded.said["next_dirty"], recorded.said["groups"])
    assert stopped_by_itself > 100


def check_pass(recorded):
    done = kg.compact(recorded.path, recorded.out, recorded.config)
    assert (done.next_dirty_offset, done.groups) == (recorded.said["next_dirty"], recorded.said["groups"])
    left = recorded.left()
    assert sorted(os.listdir(recorded.out)) == [f"{segment['base_offset']:020}.log" for segment in left]
    for segment in left:
        file = recorded.out / f"{segment['base_offset']:020}.log"
        assert described(file) == [said_batch(batch) for batch in segment["batches"]]
        assert file.stat().st_mtime_ns == segment["last_modified_ms"] * 1_000_000
    assert (done.after.segments, done.after.batches, done.after.records) == (
        len(left),
        sum(len(segment["batches"]) for segment in left),
        sum(len(batch["records"]) for segment in left for batch in segment["batches"]),
    )
    assert done.before.bytes == sum(segment["size"] for segment in recorded.said["segments_before"])
    assert done.after.bytes == sum(file.stat().st_size for file in recorded.out.iterdir())


def test_the_command_gives_the_same_as_the_function(tmp_path):
    """The same files and numbers, with every flag, at every tenth pass."""
    for case, number in PASSES[::10]:
        with cases.case(f"{case}, pass {number}"):
            folder = new_folder(tmp_path, case, number)
            recorded = Pass(case, number, folder)
            done = kg.compact(recorded.path, recorded.out, recorded.config)
            given = {name: value for name, value in vars(recorded.config).items() if value is not None}
            flags = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
            said = ask_json("compact", recorded.path, "--out", folder / "cli", "--json", *flags)
            assert (said["next_dirty_offset"], said["groups"]) == (done.next_dirty_offset, done.groups)
            assert (said["before"], said["after"]) == (vars(done.before), vars(done.after))
            assert content(folder / "cli") == content(recorded.out)


def content(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def records_of(folder):
    """Return (offset, time, key, value) of every record that is not a marker."""
    log = kg.open_log(folder)
    records = [
        (record.offset, record.timestamp, record.key, record.value)
        for batch in log
        if not batch.is_control
        for record in batch.records
    ]
    assert log.damage is None
    return records


KEYS = st.sampled_from([b"a", b"b", b"c", b"d", None])
VALUES = st.sampled_from([b"", b"1", b"2", None])
NOW = 1_000_000
RETENTION = 1000
CONFIG = kg.CleanerConfig(now_ms=NOW, delete_retention_ms=RETENTION)


@st.composite
def logs(draw):
    """The batches of a log with codecs, gaps and transactions of three producers; (producer, type) of its markers."""
    offset = draw(st.sampled_from([0, 7]))
    out = []
    for time in range(draw(st.integers(1, 25))):
        kind = draw(st.sampled_from(["plain", "plain", "transaction", "transaction", "commit", "abort"]))
        producer = -1 if kind == "plain" else draw(st.integers(1, 3))
        who = {"producer_id": producer, "producer_epoch": -1 if producer < 0 else 0}
        if kind in ("commit", "abort"):
            out.append(encode_marker(offset, producer, ControlType[kind.upper()], time=time))
        else:
            records = []
            for _ in range(draw(st.integers(1, 4))):
                records.append(LogRecord(offset, time, draw(KEYS), draw(VALUES)))
                offset += draw(st.integers(1, 2))
            codec = draw(st.sampled_from([0, 0, *CompressionType]))
            out.append(encode_batch(records, attributes=codec | TRANSACTIONAL * (producer >= 0), **who))
        offset += draw(st.sampled_from([1, 1, 1, 5]))
    return out


def write(folder, batches, segment_bytes):
    with LogWriter(folder, segment_bytes) as log:
        for batch in batches:
            log.append(batch)
    return folder


def aborted_offsets(folder):
    """Return the offsets of the records in aborted transactions."""
    aborted = set()
    waiting = {}
    for batch in kg.open_log(folder):
        if batch.is_control:
            offsets = waiting.pop(batch.producer_id, ())
            if batch.records and batch.records[0].key == encode_control_key(ControlType.ABORT):
                aborted.update(offsets)
        elif batch.is_transactional:
            waiting.setdefault(batch.producer_id, []).extend(record.offset for record in batch.records)
    return aborted


@given(logs(), st.integers(80, 400), st.integers(80, 1000), st.integers(1, 5) | st.just(CONFIG.map_entries))
def test_a_pass_keeps_the_last_value_of_every_key_and_adds_nothing(batches, rolls, segment_bytes, entries):
    """No record is new, changed or out of order.

    Below the next dirty offset, the newest record of each key that was not aborted stays: a value, or a tombstone
    before its horizon. At and above this offset, only aborted data is removed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "log"), batches, rolls)
        out = Path(folder, "out")
        config = replace(CONFIG, segment_bytes=segment_bytes, map_entries=entries)
        done = kg.compact(path, out, config)
        before = records_of(path)
        after = records_of(out)
        aborted = aborted_offsets(path)
        left = iter(before)
        assert all(record in left for record in after)
        newest = {
            key: offset for offset, _, key, _ in before if offset < done.next_dirty_offset and offset not in aborted
        }
        newest.pop(None, None)
        beyond = {record[0] for record in before if record[0] >= done.next_dirty_offset} - aborted
        assert {*newest.values(), *beyond} <= {record[0] for record in after}
        assert done.before.records >= done.after.records


@given(logs(), st.integers(80, 400))
def test_a_second_pass_at_the_same_time_finds_little_to_do(batches, rolls):
    """A second pass from the next dirty offset changes no byte.

    A second pass over the whole log removes no record. It only gives a horizon to markers whose data was removed. A
    third pass changes no batch.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "log"), batches, rolls)
        done = kg.compact(path, Path(folder, "1"), CONFIG)
        first = content(Path(folder, "1"))
        kg.compact(Path(folder, "1"), Path(folder, "again"), replace(CONFIG, first_dirty=done.next_dirty_offset))
        if done.next_dirty_offset:
            assert content(Path(folder, "again")) == first
        kg.compact(Path(folder, "1"), Path(folder, "2"), CONFIG)
        kg.compact(Path(folder, "2"), Path(folder, "3"), CONFIG)
        one, two, three = (
            [(batch.is_control, batch.data) for batch in kg.open_log(Path(folder, name))] for name in "123"
        )
        assert two == three
        assert [batch for batch in one if not batch[0]] == [batch for batch in two if not batch[0]]
        assert records_of(Path(folder, "1")) == records_of(Path(folder, "2"))


@pytest.mark.slow
@settings(max_examples=50)
@given(logs(), st.integers(80, 400), st.integers(1, 4))
def test_many_small_passes_leave_the_records_of_one_large_pass(batches, rolls, entries):
    """With any capacity of the offset map, repeated passes from the next dirty offset give the same records."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "log"), batches, rolls)
        whole = kg.compact(path, Path(folder, "whole"), CONFIG)
        dirty = kg.open_log(path).start_offset
        for number in itertools.count():
            if not whole.groups or dirty == whole.next_dirty_offset:
                break
            out = Path(folder, str(number))
            done = kg.compact(path, out, replace(CONFIG, first_dirty=dirty, map_entries=entries))
            assert done.next_dirty_offset > dirty
            path = out
            dirty = done.next_dirty_offset
        assert records_of(path) == records_of(Path(folder, "whole"))


@settings(max_examples=20)
@given(st.integers(1, 600), st.integers(1, 30), st.floats(0, 0.5), st.integers(0, 2**32), st.integers(1000, 20_000))
def test_a_coordinator_loads_the_same_offsets_from_a_cleaned_log(records, groups, tombstones, seed, rolls):
    """No offset of plain commits and tombstones is lost. The cleaner does not keep the order of transactions."""
    with tempfile.TemporaryDirectory() as folder:
        synth.write(Path(folder, "topic"), records, partitions=1, groups=groups, tombstones=tombstones, seed=seed)
        batches = [batch.data for batch in kg.open_log(Path(folder, "topic", "__consumer_offsets-0"))]
        path = write(Path(folder, "__consumer_offsets-0"), batches, rolls)
        out = Path(folder, "cleaned", "__consumer_offsets-0")
        kg.compact(path, out, kg.CleanerConfig(segment_bytes=rolls))
        before = kg.load(path)
        after = kg.load(out)
        assert {name: before[name].offsets for name in before if before[name].offsets} == {
            name: after[name].offsets for name in after if after[name].offsets
        }


def test_a_log_at_which_kafkas_cleaner_fails_is_an_error_and_writes_nothing(tmp_path):
    """Two of these logs: an old message that has to stay empty at the end of a pass, and a marker without a key.

    Kafka says "Empty batches are only supported for magic v2 and above" (MemoryRecords.filterTo).
    """
    no_key = LogRecord(1, 5, None, b"")
    marker = encode_batch([no_key], attributes=TRANSACTIONAL | CONTROL, producer_id=1, producer_epoch=0)
    for name, last in (("old", message(1, None, b"x")), ("marker", marker)):
        path = tmp_path / name
        write(path, [message(0, b"k", b"v")], 1000)
        with open(path / f"{0:020}.log", "ab") as segment:
            segment.write(last)
        (path / f"{2:020}.log").write_bytes(encode_batch([LogRecord(2, 5, b"k", b"v")]))
        with pytest.raises(kg.KafkagroupsError, match="offset 1"):
            kg.compact(path, tmp_path / "out")
        assert content(tmp_path / "out") == {}


def test_a_horizon_after_the_end_of_time_is_never_set(tmp_path):
    """now + delete.retention.ms overflows Java's long: each pass rewrites the tombstone without a horizon."""
    batches = [encode_batch([LogRecord(n, 5, b"%d" % n, None), LogRecord(n + 1, 6, b"k", b"")]) for n in (0, 2)]
    write(tmp_path / "log", batches, 1)
    kg.compact(tmp_path / "log", tmp_path / "out", kg.CleanerConfig(now_ms=1, delete_retention_ms=2**63 - 1))
    first, _ = kg.open_log(tmp_path / "out")
    assert (first.delete_horizon_ms, first.base_timestamp) == (None, 5)


def test_the_next_dirty_offset_is_after_a_gap_at_a_segments_end(tmp_path):
    """Offsets 71 to 99 do not exist: the next dirty offset is 100 (case 83 of the recorded runs; 71 in Kafka 2.3.1)."""
    write(tmp_path / "log", [encode_batch([LogRecord(n, 5, b"%d" % n, b"v")]) for n in (70, 100)], 1)
    assert kg.compact(tmp_path / "log", tmp_path / "out").next_dirty_offset == 100


def test_zeros_at_the_end_of_a_segment_are_not_copied(tmp_path):
    """The zeros of a preallocated file are not part of the log. In a merged segment they would be damage."""
    write(tmp_path / "log", [encode_batch([LogRecord(n, 5, b"%d" % n, b"v")]) for n in range(3)], 1)
    for segment in kg.open_log(tmp_path / "log").segments:
        with open(segment, "ab") as file:
            file.write(bytes(500))
    done = kg.compact(tmp_path / "log", tmp_path / "out")
    assert done.groups == [[0, 1]] and done.before.bytes == done.after.bytes
    assert [record[0] for record in records_of(tmp_path / "out")] == [0, 1, 2]


def test_the_progress_reaches_the_end_of_each_step(tmp_path):
    """The three steps of a pass are reported, and the last report of each is the whole."""
    recorded = Pass("cases/03-overwrite-inside-batch", 1, tmp_path)
    reports = []
    kg.compact(recorded.path, recorded.out, progress=lambda *report: reports.append(report))
    last = {step: (done, total) for step, done, total in reports}
    assert list(last) == ["read", "map", "clean"]
    assert all(done == total > 0 for done, total in last.values())


def test_an_unknown_engine_is_refused(tmp_path):
    """There is one cleaner, but the name of an engine is still checked."""
    recorded = Pass("cases/03-overwrite-inside-batch", 1, tmp_path)
    with pytest.raises(kg.UsageError, match="no engine 'fast'"):
        kg.compact(recorded.path, recorded.out, engine="fast")


COLLIDING_KEYS = [
    bytes.fromhex(
        "4dc968ff0ee35c209572d4777b721587d36fa7b21bdc56b74a3dc0783e7b9518afbfa2"
        f"{byte}a8284bf36e8e4b55b35f427593d849676da0d1{other}5d8360fb5f07fea2"
    )
    for byte, other in (("00", "55"), ("02", "d5"))
]
"""Two keys with the same MD5 hash (Marc Stevens, 2012)."""


def test_keys_with_the_same_md5_hash_are_one_key_as_in_kafkas_map(tmp_path):
    """Kafka's map stores only hashes, so the older of the two records is removed. A third key stays."""
    folder = tmp_path / "__consumer_offsets-0"
    keys = [COLLIDING_KEYS[0], b"k", COLLIDING_KEYS[1], b"last"]
    with LogWriter(folder, segment_bytes=1) as log:
        for offset, key in enumerate(keys):
            log.append(encode_batch([LogRecord(offset, 5, key, b"v")]))
    kg.compact(folder, tmp_path / "out")
    assert [record.offset for batch in kg.open_log(tmp_path / "out") for record in batch.records] == [1, 2, 3]
