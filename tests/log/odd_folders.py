"""Folders with odd offsets or names, and what brokers of 3.9.2 and 4.3.1 said when they started with them."""

from tests.groups.small_logs import START, commit
from tests.handmade import LogRecord, encode_batch


def segment(offsets, padding=0, first_time=None):
    """Return batches of one commit each. Their times are the offsets, or they rise from `first_time` on."""
    batches = []
    for number, offset in enumerate(offsets):
        time = START + (offset if first_time is None else first_time + number)
        record = commit(offset, metadata="x" * padding)
        batches.append(encode_batch([LogRecord(offset, time, record.key, record.value)]))
    return b"".join(batches)


def name(base_offset):
    return f"{base_offset:020}.log"


def write(parent, files):
    folder = parent / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    for file, data in files.items():
        (folder / file).write_bytes(data)
    return folder


SPLIT = "Split operation is only permitted for segments with overflow, and the problem path is"
COPY = "00000000000000000000 (1)"
FOLDERS = {
    "a name above all offsets": ({name(10): segment(range(5))}, (name(10), 0, SPLIT)),
    "a name above the first offsets": ({name(3): segment(range(10))}, (name(3), 0, SPLIT)),
    "a name inside the first batch": ({name(3): encode_batch([commit(offset) for offset in range(10)])}, None),
    "a segment under a second name": (
        {name(0): segment(range(10)), name(10): segment(range(10))},
        (name(10), 0, SPLIT),
    ),
    "few bytes whose offsets fall": ({name(0): segment(range(5)) + segment(range(2, 7), 0, 10)}, None),
    "offsets and times that fall": (
        {name(0): segment(range(50), 300) + segment(range(10, 61), 300)},
        (name(0), 10, "Attempt to append an offset 10 to position 4 no larger than the last offset appended (40) to"),
    ),
    "offsets that fall, times that rise": (
        {name(0): segment(range(50), 300) + segment(range(10, 61), 300, 100)},
        (name(0), 10, "Attempt to append an offset 10 to position 4 no larger than the last offset appended (40) to"),
    ),
    "a segment twice in a file": (
        {name(0): segment(range(60), 300) * 2},
        (name(0), 0, "Attempt to append an offset 0 to position 5 no larger than the last offset appended (50) to"),
    ),
    "overlapping segments": ({name(0): segment(range(60), 300), name(30): segment(range(30, 90), 300)}, None),
    "a copy beside a segment": (
        {name(0): segment(range(5)), f"{COPY}.log": segment(range(5))},
        (f"{COPY}.log", None, f'For input string: "{COPY}"'),
    ),
    "a copy beside an index": (
        {name(0): segment(range(5)), f"{COPY}.index": b""},
        (f"{COPY}.index", None, f'For input string: "{COPY}"'),
    ),
    "a word as a name": (
        {name(0): segment(range(5)), "old.log": segment(range(5))},
        ("old.log", None, 'For input string: "old"'),
    ),
    "a short number as a name": ({name(0): segment(range(5)), "5.log": segment(range(5, 8))}, None),
    "a gap between segments": ({name(0): segment(range(5)), name(100): segment(range(100, 105))}, None),
}
"""By name: the files, and None if both brokers start; or the file, the offset of the batch, and the message."""


def commits(offsets, shift=0):
    """Return batches of one commit each, which commit their offset for the partition `offset + shift` of orders."""
    return b"".join(encode_batch([commit(offset, partition=offset + shift)]) for offset in offsets)


def _list(*ranges):
    return {f"orders-{offset + shift}": offset for offsets, shift in ranges for offset in offsets}


READ = {
    "overlapping segments": (
        {name(0): commits(range(10)), name(5): commits(range(5, 15), 100)},
        _list((range(10), 0), (range(10, 15), 100)),
        None,
    ),
    "a segment inside of another": (
        {name(0): commits(range(10)), name(5): commits(range(5, 8), 100), name(10): commits(range(10, 12), 200)},
        _list((range(10), 0), (range(10, 12), 200)),
        None,
    ),
    "a fall behind the end of the segment before": (
        {
            name(0): commits(range(10)),
            name(8): commits(range(8, 9), 100) + commits(range(20, 25), 100) + commits(range(12, 26), 200),
        },
        _list((range(10), 0), (range(20, 25), 100), (range(12, 26), 200)),
        None,
    ),
    "a fall below the end": (
        {name(0): commits(range(10)) + commits(range(2, 14), 100)},
        _list((range(10), 0), (range(2, 14), 100)),
        None,
    ),
    "a fall at the end": (
        {name(0): commits(range(10)) + commits(range(2, 7), 100)},
        _list((range(10), 0), (range(2, 7), 100)),
        "New last written offset 7 of __consumer_offsets-0 must be greater than 10.",
    ),
    "the last batch twice": (
        {name(0): commits(range(10)) + commits(range(9, 10), 100)},
        _list((range(10), 0), (range(9, 10), 100)),
        "New last written offset 10 of __consumer_offsets-0 must be greater than 10.",
    ),
}
"""By name: the files, the offsets that 3.9.2 answers after its load, and why the load of 4.3.1 fails, or None.

4.3.1 answers the same offsets if its load does not fail.
"""
