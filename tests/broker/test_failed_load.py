"""Requests to a broker whose load of a partition has failed."""

import pytest

from tests.broker.broker import VERSIONS, Broker, need_jars, read_size
from tests.handmade import LogRecord, OffsetCommitValue, encode_batch

pytest.importorskip("kafka", reason="no kafka-python")
from tests.broker import client
from tests.groups.small_logs import START, offset_record

pytestmark = pytest.mark.broker

UNKNOWN_VERSION = bytes([0, 9])
"""A value of version 9, which no release has."""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_commit_after_a_failed_load(version, tmp_path):
    """3.9.2 answers from an empty cache, and accepts commits. 4.3.1 refuses all requests about the partition."""
    need_jars(version)
    log = tmp_path / "logs" / "__consumer_offsets-0"
    log.mkdir(parents=True)
    key, value = offset_record(0, OffsetCommitValue(5, commit_timestamp=START))
    batches = [encode_batch([LogRecord(n, START, key, it)]) for n, it in enumerate((value, UNKNOWN_VERSION))]
    (log / f"{0:020}.log").write_bytes(b"".join(batches))

    (tmp_path / "broker").mkdir()
    broker = Broker(version, tmp_path / "broker", 1)
    try:
        client.create_offsets_topic(broker, "t")
        broker.place(log.parent)
        broker.start()
        broker.wait_until_loaded()
        assert broker.failed() == {0}
        size = read_size(broker)
        with client.asking(broker.address) as ask:
            fetched = client.offsets(ask, ["g"], stable=False)["g"]
            error = client.commit(ask, "g", "t", 0, 7)
            after = client.offsets(ask, ["g"], stable=False)["g"]
    finally:
        broker.stop()
    is_written = read_size(broker) > size
    if version == "3.9.2":
        assert (fetched, error, after, is_written) == ({}, client.NONE, {"t-0": (7, -1, "")}, True)
    else:
        assert (fetched, error, after, is_written) == (
            client.NOT_COORDINATOR,
            client.NOT_COORDINATOR,
            client.NOT_COORDINATOR,
            False,
        )
