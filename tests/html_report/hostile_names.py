"""A log whose group, topic and member names try to be more than text, and a healthy one."""

import kafkagroups as kg
from tests.handmade import LogRecord, LogWriter, OffsetCommitKey, OffsetCommitValue, encode_batch

START = 1_700_000_000_000
NAMES = (
    "<script>document.title='hacked'</script>",
    '"><img src=http://evil.example/x onerror="document.title=\'hacked\'">',
    "</title></style></svg><h1>hacked</h1>",
    "' onmouseover='alert(1)",
    "&lt;b&gt;&amp;#60;",
    "--><iframe src=//evil.example></iframe><!--",
    "\x1b]0;hacked\x07\x1b[2J\x1b[31m",
    "safe\u202egnp.exe\u2066\u200f\u2028",
    "$(touch hacked); `touch hacked` & '; touch hacked; '",
    "--all",
    "javascript:alert(1)",
    "x" * 249,
    "<" * 249,
)


def write_hostile_log(folder):
    """Write a partition in which each name is a group, a topic and a metadata text.

    One offset of each group goes back, and one is in a transaction that stays open: a finding with the name.
    """
    offset = 0
    with LogWriter(folder / "__consumer_offsets-0", segment_bytes=1 << 30) as log:
        for number, name in enumerate(NAMES):
            for partition, committed, producer in ((0, 500, -1), (0, 100, -1), (1, 7, number)):
                time = START + 30_000 * offset
                key = OffsetCommitKey(name, name, partition)
                value = OffsetCommitValue(offset=committed, metadata=name, commit_timestamp=time)
                record = LogRecord(offset, time, *kg.encode(kg.Record(1, key, value, 3)))
                attributes = 0 if producer < 0 else 0x10
                epoch = min(producer, 0)
                log.append(encode_batch([record], attributes=attributes, producer_id=producer, producer_epoch=epoch))
                offset += 1
    return folder / "__consumer_offsets-0"
