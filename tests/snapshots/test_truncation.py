"""A segment that is truncated while a snapshot resumes: the process goes on, and the next resume is right."""

import subprocess
import sys

import pytest

import kafkagroups as kg
from kafkagroups import synth
from kafkagroups.loading.snapshots import Snapshot, take_snapshot
from tests.engine.same import shape

RESUME = """
import os, sys
from kafkagroups.loading.snapshots import Snapshot, take_snapshot
from kafkagroups.log.folders import open_logs
from kafkagroups.log.segments import Log

topic, state, engine = sys.argv[1:]
logs = open_logs(topic)
make = Log.__init__

def make_and_truncate(self, *arguments, **options):
    # The new part of the log is known here, and its records are not read yet.
    make(self, *arguments, **options)
    os.truncate(os.path.join(logs[0].folder, logs[0].segments[0]), 5000)

Log.__init__ = make_and_truncate
Snapshot.read(state).advance_logs(logs, engine=engine).save(state)
"""


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_segment_that_is_truncated_while_a_snapshot_resumes(engine, tmp_path):
    """Bytes that were there when the file was opened are gone when they are read: then the log ends there."""
    topic = tmp_path / "topic"
    state = tmp_path / "state"
    synth.write(topic, 5000, partitions=1)
    (segment,) = topic.rglob("*.log")
    data = segment.read_bytes()
    segment.write_bytes(data[:5000])
    take_snapshot(topic, engine=engine).save(state)
    segment.write_bytes(data)
    script = [sys.executable, "-c", RESUME, str(topic), str(state), engine]
    resumed = subprocess.run(script, capture_output=True, text=True, timeout=120)
    assert resumed.returncode == 0, resumed
    assert segment.stat().st_size == 5000
    segment.write_bytes(data)
    assert shape(Snapshot.read(state).advance(topic, engine=engine).groups()) == shape(kg.load(topic))
