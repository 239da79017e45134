"""When the native engine hands a log over to the readable engine: never for what a broker of 0.11 or later wrote and
reads itself, else with the place and the reason, at the cost of one more reading of one partition.
"""

from collections import Counter

import pytest
from msgspec.structs import replace

import kafkagroups as kg
from kafkagroups import dialect, open_log, synth
from kafkagroups.groups import replay as readable
from kafkagroups.loading import native
from kafkagroups.log.folders import open_logs
from kafkagroups.log.segments import NO_STOP
from kafkagroups.records.releases import DEFAULT_KAFKA
from tests.captured import captured
from tests.engine.same import shape
from tests.fuzz.odd_logs import mend
from tests.groups.small_logs import commit
from tests.handmade import (
    CONTROL,
    TRANSACTIONAL,
    CompressionType,
    GroupMetadataKey,
    GroupMetadataValue,
    LogRecord,
    MemberMetadata,
    compress,
    encode_batch,
    log_of_buffers,
    write_segment,
)

pytestmark = pytest.mark.engine
NEW = dialect("new", None)
FAILS = "the load fails"
OLD_FORMAT = "bytes that are no batch of magic 2"
ODD_VALUE = "an odd value of an offset record"
ODD_KEY = "an odd key"
NEWER_GROUP = "a group record of a version above 3"
NO_KEY = "a record without a key"


def why(log, rules, follow=native.KEEPS_FATES):
    """Return why a log is handed over; None if it is not. A load that fails has a reason of its own."""
    try:
        reading = native.read(log, rules, follow=follow)
        native.find_damage(reading, log, NO_STOP)
        native.make_shard(reading, log, rules)
    except native.HandedOver as error:
        assert (
            error.segment
            and error.position >= 0
            and str(error) == f"{error.segment}: position {error.position}: {error.reason}"
        )
        return FAILS if error.reason.startswith(FAILS) else error.reason
    return None


def partitions(family):
    """Return the folders of all logs of a family."""
    return sorted({file.parent for file in captured(family).rglob("*.log")})


RUNS = {
    **{key: {OLD_FORMAT: 3} for key in ("1.0.1-fmt-0.9.0", "1.0.1-fmt-0.10.0", "1.0.1-ibp-0.9.0")},
    "1.0.1-craft-a": {ODD_VALUE: 2},
    "1.0.1-craft-b": {ODD_VALUE: 2, FAILS: 2},
    "2.3.1-craft-a": {ODD_VALUE: 1},
    "2.8.2-craft-a": {ODD_VALUE: 1},
    "2.8.2-craft-b": {ODD_VALUE: 2, FAILS: 1},
    **{key: {FAILS: 2} for key in ("4.3.1-ghost", "4.4.0-ghost")},
}
"""Runs whose broker was told to write the message format of an older release, or which got records that it refuses."""
RUN_FAMILIES = ("runs", "v440", "conversations", "new_expiry", "new_conversations")


@pytest.mark.parametrize("family", RUN_FAMILIES)
def test_no_run_is_handed_over(family):
    """Every captured run of 0.11 or later, read by the coordinators of its own release, for each kind of question."""
    found = {}
    for folder in partitions(family):
        run = folder.relative_to(captured(family)).parts[-3]
        release = tuple(map(int, run.partition("-")[0].split(".")))
        if release < (0, 11):
            continue
        coordinators = [
            name for name, is_there in (("classic", release < (4,)), ("new", release >= (3, 7))) if is_there
        ]
        for coordinator in coordinators:
            rules = dialect(coordinator, run.partition("-")[0])
            for log in open_logs(folder):
                reasons = {why(log, rules, follow) for follow in (native.LOADS, native.COUNTS, native.KEEPS_FATES)}
                assert len(reasons) == 1
                found.setdefault(run, Counter()).update(reasons - {None})
    assert {run: reasons for run, reasons in found.items() if reasons} == {
        run: reasons for run, reasons in RUNS.items() if run in found
    }
    assert len(found) > 0


@pytest.mark.parametrize("coordinator", DEFAULT_KAFKA)
@pytest.mark.parametrize(
    "settings",
    [
        *({"codec": codec} for codec in ("none", "gzip", "snappy", "lz4", "zstd")),
        {"transactional": 0.5, "aborts": 0.2, "hanging": 0.1, "tombstones": 0.2},
        {"generations": 0.2, "metadata": 0.5, "width": None},
        {"modern": 0.5, "generations": 0.2, "members": 3},
    ],
    ids=str,
)
def test_no_synthetic_log_is_handed_over(settings, coordinator, tmp_path):
    """Every codec, transactions, generations, metadata, and the records of the new protocol, in small segments."""
    synth.write(tmp_path, 4_000, partitions=2, groups=50, segment_bytes=50_000, **settings)
    rules = dialect(coordinator, None)
    assert [why(log, rules) for log in open_logs(tmp_path)] == [None, None]


GOOD = encode_batch([commit(0)])


def batch(*records, **fields):
    return encode_batch(list(records), **fields)


def changed(data, position, new):
    return data[:position] + new + data[position + len(new) :]


def compressed(codec, payload, count=1):
    """Return a batch behind GOOD with this compressed content."""
    header = bytearray(batch(commit(1))[:61])
    header[21:23] = int(codec).to_bytes(2, "big")
    header[57:61] = count.to_bytes(4, "big", signed=True)
    return mend(bytes(header) + payload)


OPEN = [
    batch(commit(producer), attributes=TRANSACTIONAL, producer_id=producer, producer_epoch=0)
    for producer in range(1, 70)
]
MARKER = LogRecord(1, 5, b"\0\0\0\1", b"\0\0\0\0\0\0")
ODD_LOGS = {
    "a batch has a wrong checksum": changed(batch(commit(1)), 70, b"\xff"),
    OLD_FORMAT: b"\1" * 70,
    "a batch is larger than the limit": changed(batch(commit(1)), 8, b"\x7f\0\0\0"),
    "a batch has more records than bytes": mend(changed(batch(commit(1)), 57, b"\xff" * 4)),
    "the offsets of the batches do not rise": GOOD,
    "the offsets in a batch do not rise": batch(commit(2), commit(1), base_offset=1, last_offset=2),
    "bytes behind the records of a batch": mend(batch(commit(1)) + b"\0"),
    "an odd record": mend(changed(batch(commit(1)), 57, b"\0\0\0\2")),
    "an odd record in a control batch": mend(
        changed(batch(MARKER, attributes=TRANSACTIONAL | CONTROL, producer_id=1), 57, b"\0\0\0\2")
    ),
    "an odd key of a control record": batch(
        replace(MARKER, key=b"\0"), attributes=TRANSACTIONAL | CONTROL, producer_id=1
    ),
    NO_KEY: batch(replace(commit(1), key=None)),
    ODD_KEY: batch(replace(commit(1), key=b"\0\1\0")),
    "a group id or topic that is not UTF-8": batch(replace(commit(1), key=commit(1, "X").key.replace(b"X", b"\xff"))),
    ODD_VALUE: batch(replace(commit(1), value=b"\0\3")),
    NEWER_GROUP: batch(LogRecord(1, 5, b"\0\2\0\1g", b"\0\4")),
    "a group id that is not UTF-8": batch(LogRecord(1, 5, b"\0\2\0\1\xff", None)),
    "an odd key of a group record": batch(LogRecord(1, 5, b"\0\5\0\1g", None)),
    "many open transactions have a commit of one key": b"".join(OPEN),
    "a batch cannot be decompressed": compressed(CompressionType.ZSTD, b"no zstd"),
    "a batch has an unknown codec": compressed(5, b""),
    "a compressed batch has too many records": compressed(CompressionType.GZIP, b"", 2**21),
    "a batch decompresses beyond the limit": compressed(
        CompressionType.LZ4, compress(CompressionType.LZ4, bytes(2_000_000))
    ),
    FAILS: batch(replace(commit(1), key=b"\0\3\0\1g", value=b"")),
}
"""A log for each reason. GOOD stands before it."""


@pytest.mark.parametrize("reason", ODD_LOGS)
def test_each_reason_has_its_place(reason):
    """`read` and `make_shard` raise HandedOver with the segment, a position behind the good batch, and the reason."""
    rules = dialect("new", None)
    log = log_of_buffers([("s.log", GOOD + ODD_LOGS[reason])], 3).limit_batches(1_000_000)
    with pytest.raises(native.HandedOver) as error:
        native.make_shard(native.read(log, rules, follow=native.KEEPS_FATES), log, rules)
    found = error.value.reason
    assert (FAILS if found.startswith(FAILS) else found) == reason
    if reason != FAILS:
        assert error.value.segment == "s.log"
        assert len(GOOD) <= error.value.position < len(GOOD + ODD_LOGS[reason])


def test_old_rules_are_handed_over():
    """Releases before 0.10.1 keep offsets separately from groups, which only the readable engine does."""
    log = open_log("data/harbour/1.0.1/__consumer_offsets-9")
    assert why(log, dialect("classic", "0.9.0.1")) == "this release keeps offsets separately from groups"
    assert why(log, dialect("classic", "0.10.2.2")) is None


def test_a_control_batch_without_a_record_is_an_error_only_for_old_releases():
    """The cleaner leaves such batches. Brokers before 2.0.1 expect a record in each."""
    empty = mend(changed(batch(MARKER, attributes=TRANSACTIONAL | CONTROL, producer_id=1), 57, bytes(4))[:61])
    log = log_of_buffers([("s.log", empty)], 3)
    assert why(log, dialect("classic", "3.9.2")) is None
    assert why(log, dialect("classic", "2.0.0")) == "this release expects a record in every control batch"


@pytest.mark.parametrize("cut", [1, 30, 70])
def test_a_torn_last_batch_costs_no_second_load(cut, monkeypatch):
    """After a crash, the end of the log is torn in most partitions. The readable engine reads only this end."""
    data = b"".join(batch(commit(offset)) for offset in range(20))
    log = log_of_buffers([("s.log", data[:-cut]), ("t.log", batch(commit(20)))], 3)
    expected = readable.fold(log, NEW)
    monkeypatch.setattr(readable, "fold", None)
    shard = native.fold(log, NEW)
    assert shard.loaded == expected.loaded
    assert shard.loaded.damage is not None and shard.loaded.damage.readable_batches_after == 1
    assert dict(shard.offsets.committed) == expected.offsets.committed
    assert shard.groups == expected.groups


@pytest.mark.slow
def test_group_records_that_fill_the_memory_are_handed_over():
    """The engine keeps the records of group members until the end of the log, but only up to 256 MiB."""
    records = [LogRecord(offset, 5, b"\0\3\0\1g", bytes(130 << 20)) for offset in range(2)]
    data = b"".join(batch(record, attributes=CompressionType.ZSTD) for record in records)
    assert why(log_of_buffers([("s.log", data)], 3), NEW) == "group records that need more than 256 MiB"


@pytest.mark.slow
def test_static_members_that_fill_the_memory_are_handed_over():
    """The engine keeps each record in which a static member has a new id, but only up to 64 MiB. A load needs none."""
    large = bytes(1 << 20)
    data = b""
    for offset in range(66):
        value = GroupMetadataValue("consumer", 1, "range", f"m-{offset}", 5, (static_member(f"m-{offset}", large),))
        record = LogRecord(offset, 5, *kg.encode(kg.Record(2, GroupMetadataKey("g"), value, 3)))
        data += batch(record, attributes=CompressionType.ZSTD)
    log = log_of_buffers([("s.log", data)], 3)
    assert why(log, NEW) == "more than 64 MiB of records with new member ids of static members"
    assert why(log, NEW, native.LOADS) is None


def static_member(member_id, assignment):
    return MemberMetadata(member_id, "instance", "c", "/127.0.0.1", 1, 1, b"\0\0" + bytes(8), assignment)


@pytest.fixture
def readings(monkeypatch):
    """Return the partitions that the readable engine folds, in order."""
    folded = []
    fold = readable.fold

    def fold_and_note(log, *arguments, **options):
        folded.append(log.partition)
        return fold(log, *arguments, **options)

    monkeypatch.setattr(readable, "fold", fold_and_note)
    return folded


QUESTIONS = {
    "load": lambda topic: kg.load(topic, engine="compiled"),
    "stats": lambda topic: kg.stats(topic, engine="compiled"),
    "explain": lambda topic: kg.explain(topic, "g", engine="compiled"),
    "fates": lambda topic: kg.record_table(topic, "fates", engine="compiled").read_all(),
    "timeline": lambda topic: kg.timeline(topic, "g", engine="compiled"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_hand_over_concerns_one_partition(question, tmp_path, readings):
    """Of three partitions, the one whose offsets do not rise is read by the readable engine, once."""
    for partition in range(3):
        write_segment(tmp_path, GOOD * (2 if partition == 1 else 1) + encode_batch([commit(1)]), partition)
    QUESTIONS[question](tmp_path)
    assert readings == [1]
    assert shape(kg.load(tmp_path, engine="compiled")) == shape(kg.load(tmp_path, engine="python"))
