"""Small logs made of steps: each is one batch, a commit, a tombstone, a marker, a group's value, a deletion.

A step is a tuple: ("C", partition) a plain commit of g's offset, ("X", producer, partition) a transactional one,
("T", partition) a tombstone, ("U", producer, partition) one inside a transaction, ("M", producer) a commit marker,
("A", producer) an abort marker, ("G",) a group value with a member, ("E",) an empty one, ("D",) a group tombstone,
("V", producer, partition) a commit of a producer without a transaction, ("K",) the deletion as a broker writes it:
tombstones of all that the group has, pending or not, and the group's, in one batch; ("R",) a commit of another group.
"""

import kafkagroups as kg
from kafkagroups.log.batch import CONTROL, TRANSACTIONAL, LogRecord
from kafkagroups.log.record_batch import encode_batch
from kafkagroups.records.control import ControlType, encode_control_key, encode_end_transaction_marker
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue

MINUTE = 60_000
START = 1_700_000_000_000
MEMBER = MemberMetadata("m", None, "c", "/h", 1000, 1000, b"", b"")


def offset_record(partition, value, group="g"):
    record = kg.Record(1, OffsetCommitKey(group, "t", partition), value, None if value is None else 3)
    return kg.encode(record)


def group_record(value):
    return kg.encode(kg.Record(2, GroupMetadataKey("g"), value, None if value is None else 3))


def batches(steps):
    """The batches of the steps, one offset behind the other, a minute apart."""
    offset, has, out = 0, {}, []
    for number, step in enumerate(steps):
        kind, producer, bits = step[0], -1, 0
        committed = OffsetCommitValue(100 + number, -1, "", START)
        if kind in "CT":
            pairs = [offset_record(step[1], committed if kind == "C" else None)]
            touched = [step[1]]
        elif kind == "R":
            pairs, touched = [offset_record(0, committed, "h")], []
        elif kind in "XUV":
            producer, bits = step[1], 0 if kind == "V" else TRANSACTIONAL
            pairs = [offset_record(step[2], None if kind == "U" else committed)]
            touched = [step[2]]
        elif kind in "MA":
            producer, bits = step[1], TRANSACTIONAL | CONTROL
            marker = ControlType.COMMIT if kind == "M" else ControlType.ABORT
            pairs, touched = [(encode_control_key(marker), encode_end_transaction_marker(0))], []
        elif kind in "GE":
            members = (MEMBER,) if kind == "G" else ()
            pairs = [group_record(GroupMetadataValue("consumer", number, "range", "m", START, members))]
            touched = []
        elif kind == "D":
            pairs, touched = [group_record(None)], []
        else:
            pairs = [offset_record(partition, None) for partition in sorted(has)] + [group_record(None)]
            touched, has = [], {}
        has |= dict.fromkeys(touched)
        time = START + number * MINUTE
        records = [LogRecord(offset + i, time, key, value) for i, (key, value) in enumerate(pairs)]
        epoch = 0 if producer >= 0 else -1
        out.append(encode_batch(records, attributes=bits, producer_id=producer, producer_epoch=epoch))
        offset += len(records)
    return out


def write(folder, steps, rolls):
    """The log in a folder, rolled before the steps whose numbers are in `rolls`."""
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
