"""A commit that does not fit into the log: what two brokers answer, and what a fetch returns then."""

import pytest

from tests.broker.broker import VERSIONS, Broker, need_jars, read_size

pytest.importorskip("kafka", reason="no kafka-python")
from tests.broker import client

pytestmark = pytest.mark.broker

UNKNOWN_SERVER_ERROR = -1
INVALID_COMMIT_OFFSET_SIZE = 28
LONGEST_MESSAGE = 300
"""message.max.bytes: a commit without metadata fits, and a commit with LONG_METADATA does not."""
LONG_METADATA = "m" * 1000


@pytest.mark.parametrize("version", VERSIONS)
def test_a_commit_whose_append_fails_leaves_the_old_offset(version, tmp_path):
    """Both keep the old offset, and write nothing. The errors are those of lesson 04."""
    need_jars(version)
    broker = Broker(version, tmp_path, 1)
    try:
        client.create_offsets_topic(broker, "t")
        properties = broker.folder / "server.properties"
        properties.write_text(f"{properties.read_text()}message.max.bytes={LONGEST_MESSAGE}\n")
        broker.start()
        broker.wait_until_loaded()
        with client.asking(broker.address) as ask:
            assert client.commit(ask, "g", "t", 0, 1) == client.NONE
            size = read_size(broker)
            error = client.commit(ask, "g", "t", 0, 2, LONG_METADATA)
            assert error == (INVALID_COMMIT_OFFSET_SIZE if version == "3.9.2" else UNKNOWN_SERVER_ERROR)
            assert client.offsets(ask, ["g"], stable=True) == {"g": {"t-0": (1, -1, "")}}
            assert read_size(broker) == size
            assert client.commit(ask, "g", "t", 0, 3) == client.NONE
            assert client.offsets(ask, ["g"], stable=True) == {"g": {"t-0": (3, -1, "")}}
    finally:
        broker.stop()
