"""Small logs made of steps. Each step is one batch.

A step is a tuple:

("C", partition)            a plain commit of group g
("X", producer, partition)  a transactional commit
("V", producer, partition)  a commit of a producer without a transaction
("T", partition)            an offset tombstone
("U", producer, partition)  an offset tombstone in a transaction
("M", producer)             a commit marker
("A", producer)             an abort marker
("G",)                      a group value with a member
("E",)                      a group value without members
("D",)                      a group tombstone
("W", producer)             a group tombstone in a transaction
("K",)                      a group's deletion as a broker writes it, in one batch: tombstones of all its offsets,
                            pending or not, and of the group
("R",)                      a commit of another group
"""

import kafkagroups as kg
from tests.handmade import (
    CONTROL,
    TRANSACTIONAL,
    ControlType,
    GroupMetadataKey,
    GroupMetadataValue,
    LogRecord,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_batch,
    encode_control_key,
    encode_end_transaction_marker,
)

MINUTE = 60_000
START = 1_700_000_000_000
MEMBER = MemberMetadata("m", None, "c", "/h", 1000, 1000, b"", b"")


def offset_record(partition, value, group="g"):
    record = kg.Record(1, OffsetCommitKey(group, "t", partition), value, None if value is None else 3)
    return kg.encode(record)


def commit(offset, group="g", partition=0, topic="orders", metadata=""):
    """Return the record of a commit. Its offset in the log is also what it commits, and its time."""
    value = OffsetCommitValue(offset=offset, metadata=metadata, commit_timestamp=offset)
    record = kg.Record(1, OffsetCommitKey(group, topic, partition), value, 3)
    return LogRecord(offset, offset, *kg.encode(record))


def group_record(value):
    return kg.encode(kg.Record(2, GroupMetadataKey("g"), value, None if value is None else 3))


def batches(steps):
    """Return the batches of the steps, with consecutive offsets, one minute apart."""
    offset = 0
    keys = {}
    encoded = []
    for number, step in enumerate(steps):
        kind = step[0]
        producer = -1
        bits = 0
        touched = []
        committed = OffsetCommitValue(100 + number, -1, "", START)
        if kind in "CT":
            pairs = [offset_record(step[1], committed if kind == "C" else None)]
            touched = [step[1]]
        elif kind == "R":
            pairs = [offset_record(0, committed, "h")]
        elif kind in "XUV":
            producer = step[1]
            bits = 0 if kind == "V" else TRANSACTIONAL
            pairs = [offset_record(step[2], None if kind == "U" else committed)]
            touched = [step[2]]
        elif kind in "MA":
            producer = step[1]
            bits = TRANSACTIONAL | CONTROL
            marker = ControlType.COMMIT if kind == "M" else ControlType.ABORT
            pairs = [(encode_control_key(marker), encode_end_transaction_marker(0))]
        elif kind in "GE":
            members = (MEMBER,) if kind == "G" else ()
            pairs = [group_record(GroupMetadataValue("consumer", number, "range", "m", START, members))]
        elif kind in "DW":
            producer = -1 if kind == "D" else step[1]
            bits = 0 if kind == "D" else TRANSACTIONAL
            pairs = [group_record(None)]
        else:
            pairs = [offset_record(partition, None) for partition in sorted(keys)] + [group_record(None)]
            keys = {}
        keys |= dict.fromkeys(touched)
        time = START + number * MINUTE
        records = [LogRecord(offset + i, time, key, value) for i, (key, value) in enumerate(pairs)]
        epoch = 0 if producer >= 0 else -1
        encoded.append(encode_batch(records, attributes=bits, producer_id=producer, producer_epoch=epoch))
        offset += len(records)
    return encoded


def write(folder, steps, rolls):
    """Write the log into a folder. A new segment begins before each step whose number is in `rolls`."""
    folder.mkdir(parents=True)
    data = batches(steps)
    position = 0
    parts = []
    for number, batch in enumerate(data):
        if number == 0 or number in rolls:
            parts.append((position, []))
        parts[-1][1].append(batch)
        position = int.from_bytes(batch[:8], "big") + int.from_bytes(batch[23:27], "big") + 1
    for base, those in parts:
        (folder / f"{base:020}.log").write_bytes(b"".join(those))
    return folder
