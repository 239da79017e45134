"""A stream that keeps a snapshot and is killed at random loses nothing and counts nothing twice."""

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
from tests.engine.same import resumed_shape as shape
from tests.snapshots.forged import Snapshot
from tests.spark.growing import feed

pytestmark = [pytest.mark.java, pytest.mark.cluster]
JOB = Path(__file__).with_name("keep_job.py")
COORDINATORS = ("classic", "new")


def start(topic, folder, *now):
    job = [sys.executable, str(JOB), str(topic), str(folder), *now]
    return subprocess.Popen(job, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def same(given, wanted):
    """Compare groups without the segment counts and the half-written batches of a log that goes on."""
    for groups in (given, wanted):
        for partition in groups.partitions.values():
            partition.segments = 0
            partition.damage = None
    return shape(given) == shape(wanted)


def test_a_kept_snapshot_survives_kills_while_the_topic_grows(tmp_path):
    """The stream is killed twice. Each snapshot equals a load of what it has read; the last one equals a whole load."""
    whole = tmp_path / "whole"
    topic = tmp_path / "topic"
    folder = tmp_path / "state"
    settings = {"transactional": 0.5, "generations": 0.02, "metadata": 0.1, "width": None, "segment_bytes": 300_000}
    synth.write(whole, 20_000, partitions=4, groups=60, **settings)
    topic.mkdir()
    rnd = random.Random(1)
    feeder = threading.Thread(target=feed, args=(whole, topic, 1, 12), daemon=True)
    feeder.start()
    for _ in range(2):
        process = start(topic, folder)
        assert process.stdout.readline() == "started\n", process.stdout.read()
        time.sleep(rnd.uniform(1, 4))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        for coordinator in COORDINATORS:
            compare_with_partial_loads(topic, folder / coordinator, coordinator)
    feeder.join()
    last = start(topic, folder, "now")
    said, _ = last.communicate(timeout=120)
    assert last.returncode == 0, said
    for coordinator in COORDINATORS:
        wanted = kg.load(topic, coordinator)
        given = Snapshot.read(folder / coordinator).groups()
        assert len(wanted) > 50 and {p.damage for p in wanted.partitions.values()} == {None}
        assert same(given, wanted)


def compare_with_partial_loads(topic, folder, coordinator):
    """Compare each partition's state in a snapshot with a load up to the offset that the state has reached."""
    if not (folder / "snapshot.json").exists():
        return
    snapshot = Snapshot.read(folder)
    for number, partition in snapshot.partitions.items():
        alone = Snapshot(snapshot.dialect, {number: partition})
        log = topic / f"__consumer_offsets-{number}"
        assert same(alone.groups(), kg.load(log, coordinator, until=alone.next_offsets[number]))
