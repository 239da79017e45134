"""Fixtures of the Spark tests: one session for all of them, and folders with very many logs."""

import shutil

import pytest

from kafkagroups import spark as kgs
from tests.captured import LONG, captured
from tests.engine.random_logs import random_log

SEGMENT = "00000000000000000000.log"


@pytest.fixture(scope="session")
def session():
    # A stream runs a Python process for each shuffle partition.
    session = kgs.session("local[2]", memory="1g", conf={"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def captured_logs(tmp_path_factory):
    """Return a folder with every captured and crafted log, each as a partition with its own number."""
    folder = tmp_path_factory.mktemp("captured")
    found = {file.parent for family in ("runs", "crafted") for file in captured(family).rglob("*.log")}
    for number, log in enumerate(sorted(found)):
        shutil.copytree(log, folder / f"__consumer_offsets-{number}")
    return folder


@pytest.fixture(scope="session")
def random_logs(tmp_path_factory):
    """600 random logs, 20,000 in the long profile."""
    folder = tmp_path_factory.mktemp("random")
    for seed in range(20_000 if LONG else 600):
        place = folder / f"__consumer_offsets-{seed}"
        place.mkdir()
        (place / SEGMENT).write_bytes(random_log(seed))
    return folder
