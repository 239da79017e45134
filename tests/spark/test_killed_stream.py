"""A stream into a table of files that is killed at random moments, fifty times in the long profile, loses nothing."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import synth
from tests.spark.growing import feed

pytestmark = [pytest.mark.java, pytest.mark.cluster]
JOB = Path(__file__).with_name("stream_job.py")
KILLS = 50 if os.environ.get("KG_PROFILE") == "long" else 12
RECORDS = 100_000


def start(topic, folder, *now):
    job = [sys.executable, str(JOB), str(topic), str(folder), *now]
    return subprocess.Popen(job, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)


def has_unfinished_batch(checkpoint):
    """Return whether Spark has planned a micro-batch that it has not committed, as its checkpoint says."""
    planned, committed = ({file.name for file in (checkpoint / name).glob("[0-9]*")} for name in ("offsets", "commits"))
    return planned > committed


@pytest.mark.thorough
def test_a_stream_that_is_killed_again_and_again_has_each_record_once(session, tmp_path):
    """SIGKILL ends Python and Java at random moments while the log grows; the log says what the sink must have."""
    whole = tmp_path / "whole"
    topic = tmp_path / "topic"
    topic.mkdir()
    synth.write(whole, RECORDS, partitions=4, groups=200, transactional=0.3, segment_bytes=300_000)
    feeder = threading.Thread(target=feed, args=(whole, topic, 1, 6 * KILLS), daemon=True)
    feeder.start()
    rnd = random.Random(1)
    kills_inside = 0
    for _ in range(KILLS):
        process = start(topic, tmp_path)
        try:
            assert process.stdout.readline() == "started\n", process.stdout.read()
            time.sleep(rnd.uniform(0, 5))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        kills_inside += has_unfinished_batch(tmp_path / "checkpoint")
    feeder.join()
    last = start(topic, tmp_path, "now")
    said, _ = last.communicate(timeout=300)
    assert last.returncode == 0, said
    found = session.read.parquet(str(tmp_path / "sink")).toArrow().to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [
        (log.partition, record.offset, record.key, record.value)
        for log in map(kg.open_log, sorted(topic.iterdir()))
        for batch in log
        for record in batch.records
    ]
    assert len(found) >= RECORDS and kills_inside > KILLS // 4
