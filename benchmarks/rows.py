"""A topic's key and value rows as Parquet files, used by the ways that do not read the log."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.topics import Topic
from benchmarks.ways.arrays import find_records, gather


def write_rows(topic: Topic) -> None:
    """Write offset, key and value of each record, one file per segment.

    The file names do not begin with an underscore, because Spark ignores files whose names do.
    """
    topic.rows.mkdir()
    for segment in topic.segments():
        data = np.fromfile(segment, np.uint8)
        found = find_records(data)
        offset = pa.Array.from_buffers(pa.int64(), len(found.offset), [None, pa.py_buffer(found.offset)])
        columns = {
            "offset": offset,
            "key": gather(data, found.key, found.key_size),
            "value": gather(data, found.value, found.value_size),
        }
        pq.write_table(pa.table(columns), topic.rows / f"{segment.parent.name.strip('_')}-{segment.stem}.parquet")
