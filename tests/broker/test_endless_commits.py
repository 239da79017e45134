"""A 4.3.1 broker keeps a commit with a producer but no transaction pending. The remedies of the finding end it."""

import pytest

import kafkagroups as kg
from tests.broker.broker import Broker, need_jars
from tests.handmade import LogRecord, OffsetCommitValue, encode_batch

pytest.importorskip("kafka", reason="no kafka-python")
from tests.broker import client
from tests.broker.test_rescue import fill_topics
from tests.groups.small_logs import START, offset_record

pytestmark = pytest.mark.broker

KAFKA = "4.3.1"
GROUPS = ("aborted", "deleted")


def test_the_remedies_end_what_is_pending(tmp_path):
    """A restart does not help. An abort marker does, and so does a tombstone before a new commit."""
    need_jars(KAFKA)
    log = tmp_path / "logs" / "__consumer_offsets-0"
    log.mkdir(parents=True)
    batches = []
    for offset, group in enumerate(GROUPS):
        record = LogRecord(offset, START, *offset_record(0, OffsetCommitValue(5, commit_timestamp=START), group))
        batches.append(encode_batch([record], producer_id=7 + offset, producer_epoch=0))
    (log / f"{0:020}.log").write_bytes(b"".join(batches))
    findings = {finding.group: finding for finding in kg.check(log).findings}
    assert {finding.kind for finding in findings.values()} == {"endless_pending_commit"} and set(findings) == set(
        GROUPS
    )

    (tmp_path / "broker").mkdir()
    broker = Broker(KAFKA, tmp_path / "broker", 1)
    try:
        broker.start()
        fill_topics(broker, {"t": 1})
        with client.asking(broker.address) as ask:
            client.find_coordinator(ask, "any")
            broker.wait_until_loaded()
        broker.stop()
        broker.place(log.parent)
        for ends in (True, False):
            broker.start()
            broker.wait_until_loaded()
            with client.asking(broker.address) as ask:
                answers = client.named_offsets(ask, {group: ["t-0"] for group in GROUPS})
            assert answers == {group: {"t-0": client.UNSTABLE} for group in GROUPS}
            if ends:
                broker.stop()
        _, _, command = findings["aborted"].remedy.partition("kafka-transactions.sh ")
        words = command.replace("HOST:PORT", broker.address).split()
        broker._run("org.apache.kafka.tools.TransactionsCommand", *words)
        delete = ("--bootstrap-server", broker.address, "--group", "deleted", "--topic", "t:0", "--delete-offsets")
        broker._run("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *delete)
        with client.asking(broker.address) as ask:
            assert client.commit(ask, "deleted", "t", 0, 6) == 0
            offsets = client.offsets(ask, GROUPS, stable=True)
        assert offsets["aborted"] == {} and offsets["deleted"]["t-0"][0] == 6
    finally:
        broker.stop()
    assert kg.check(broker.partition(0)).findings == []
