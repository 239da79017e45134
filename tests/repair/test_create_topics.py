"""`create_topics` against a scripted broker: topics whose leaders come later, and what a broker refuses.

tests/broker/test_rescue.py creates topics with real brokers.
"""

import pytest

pytest.importorskip("kafka", reason="no kafka-python")

from kafka.protocol.admin import CreateTopicsRequest, CreateTopicsResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from kafkagroups import UsageError
from kafkagroups.repair.client import create_topics
from tests.handmade import read_batches
from tests.repair.fake_coordinator import GROUP_VERSIONS, FakeCoordinator

NOT_LEADER = 6
TOPIC_EXISTS = 36


class FakeCluster(FakeCoordinator):
    """A broker that creates topics and appends to them. `written` has the records of each partition."""

    def __init__(self):
        super().__init__({})
        self.versions = {**GROUP_VERSIONS, CreateTopicsRequest: (2, 4), ProduceRequest: (3, 8)}
        self.written = {}

    def _usual_createtopics(self, request):
        for topic in request.topics:
            self.topics[topic.name] = [(0, 0)] * topic.num_partitions
        results = [
            CreateTopicsResponse.CreatableTopicResult(
                name=topic.name, error_code=self.find_error("CreateTopics", topic.name), error_message=None
            )
            for topic in request.topics
        ]
        return CreateTopicsResponse(throttle_time_ms=0, topics=results)

    def _usual_produce(self, request):
        kind = ProduceResponse.TopicProduceResponse
        topics = []
        for topic in request.topic_data:
            results = []
            for data in topic.partition_data:
                code = self.find_error("Produce", (topic.name, data.index))
                if not code:
                    (batch,) = read_batches(bytes(data.records))
                    self.written[topic.name, data.index] = batch.records
                results.append(
                    kind.PartitionProduceResponse(
                        index=data.index,
                        error_code=code,
                        base_offset=0,
                        log_append_time_ms=-1,
                        log_start_offset=0,
                        record_errors=[],
                        error_message=None,
                    )
                )
            topics.append(kind(name=topic.name, partition_responses=results))
        return ProduceResponse(throttle_time_ms=0, responses=topics)


@pytest.fixture
def cluster(quick):
    return FakeCluster()


def create(cluster, **partition_counts):
    with cluster.running() as address:
        create_topics(address, partition_counts, 3)


def test_each_partition_gets_the_records(cluster):
    """Their offsets are 0 to 2. A partition whose leader is not there yet is asked again."""
    cluster.errors["Produce", ("orders", 1)] = [NOT_LEADER]
    create(cluster, orders=2, payments=1)
    assert sorted(cluster.written) == [("orders", 0), ("orders", 1), ("payments", 0)]
    assert {tuple(record.offset for record in records) for records in cluster.written.values()} == {(0, 1, 2)}


def test_what_the_broker_refuses_is_one_line(cluster):
    """A topic that exists, and a partition that never gets a leader."""
    cluster.errors["Produce", ("orders", 1)] = NOT_LEADER
    with pytest.raises(UsageError, match="orders: NOT_LEADER"):
        create(cluster, orders=2)
    cluster.errors["CreateTopics", "orders"] = TOPIC_EXISTS
    with pytest.raises(UsageError, match="orders: TOPIC_ALREADY_EXISTS"):
        create(cluster, orders=2)
