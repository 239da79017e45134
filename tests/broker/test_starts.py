"""Brokers start, or end, with folders whose names or offsets are odd, as tests/log/odd_folders.py says."""

import shutil

import pytest

from kafkagroups import UsageError
from tests.broker.broker import CLASSIC, VERSIONS, Broker, need_jars
from tests.log.odd_folders import FOLDERS, READ, write

pytest.importorskip("kafka", reason="no kafka-python")
from tests.broker import client

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module", params=VERSIONS)
def broker(request, tmp_path_factory):
    need_jars(request.param)
    broker = Broker(request.param, tmp_path_factory.mktemp("starts"), 1)
    try:
        client.create_offsets_topic(broker)
        yield broker
    finally:
        broker.stop()


def place(broker, files):
    parent = broker.folder / "logs"
    shutil.rmtree(parent, ignore_errors=True)
    folder = write(parent, files)
    broker.place(parent)
    for file in folder.iterdir():  # also those that are no segments
        shutil.copy(file, broker.partition(0))


@pytest.mark.parametrize(
    "name", ["a name above the first offsets", "offsets that fall, times that rise", "a copy beside a segment"]
)
def test_the_broker_ends_with_these_words(broker, name):
    files, (file, _, words) = FOLDERS[name]
    place(broker, files)
    with pytest.raises(UsageError):
        broker.start()
    broker.stop()
    assert words in broker.log and (file.partition(".")[0] in broker.log)


@pytest.mark.parametrize("name", ["a segment inside of another", "the last batch twice"])
def test_the_broker_reads_these_batches(broker, name):
    files, offsets, error = READ[name]
    place(broker, files)
    broker.start()
    try:
        broker.wait_until_loaded()
        with client.asking(broker.address) as ask:
            found = client.offsets(ask, ["g"], stable=False)["g"]
    finally:
        broker.stop()
    if error is not None and broker.version != CLASSIC:
        assert error in broker.log and found == client.NOT_COORDINATOR
    else:
        assert {key: offset for key, (offset, *_) in found.items()} == offsets
