"""Requests to a broker in Kafka's own protocol, sent by the client that `pull` uses."""

import importlib.resources
import time
import zipfile
from contextlib import contextmanager
from unittest.mock import patch

from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.admin import CreateTopicsRequest, DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)

from kafkagroups.course.real_broker import find_jars

NONE = 0
LOADING = 14
NOT_COORDINATOR = 16
GROUP_ID_NOT_FOUND = 69
UNSTABLE = 88
ANSWER_SECONDS = 30
"""How long a transaction coordinator may answer with an error until it is ready."""

ADMIN_CLIENT_ID = "__admin_client"
"""The only client id with which a broker accepts records for internal topics."""


@contextmanager
def asking(address, client_id="tests"):
    """Give a function that sends a request to the broker and returns its response."""
    config = {"bootstrap_servers": address, "client_id": client_id, "receive_message_max_bytes": 100_000_000}
    net = NetworkSelector(**config)
    manager = KafkaConnectionManager(net, **config)
    node = manager.cluster.bootstrap_brokers()[0].node_id

    def ask(request):
        async def send():
            return await manager.send(request, node)

        return net.run(send)

    try:
        yield ask
    finally:
        manager.close()
        net.close()


def find_coordinator(ask, group):
    """Send FindCoordinator. It makes the broker create __consumer_offsets."""
    return ask(FindCoordinatorRequest(key_type=0, key=group, coordinator_keys=[group], max_version=3))


def create_offsets_topic(broker, *topics):
    """Start a new broker until __consumer_offsets is there and loaded, create other topics, and stop it."""
    broker.start()
    with asking(broker.address) as ask:
        find_coordinator(ask, "any")
        broker.wait_until_loaded()
        assert {create_topic(ask, topic, 1) for topic in topics} <= {NONE}
    broker.stop()


def create_topic(ask, topic, partitions):
    """Send CreateTopics, and return the error code."""
    one = CreateTopicsRequest.CreatableTopic(
        name=topic, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    answer = ask(CreateTopicsRequest(topics=[one], timeout_ms=10_000, validate_only=False, max_version=4))
    return answer.topics[0].error_code


def topic_ids(ask, topics):
    """Send Metadata, and return the id of each topic."""
    names = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    answer = ask(MetadataRequest(topics=names, allow_auto_topic_creation=False, min_version=10, max_version=12))
    return {topic.name: topic.topic_id for topic in answer.topics}


def commit(ask, group, topic, partition, offset, metadata=""):
    """Send OffsetCommit without a member, and return the error code."""
    make = OffsetCommitRequest.OffsetCommitRequestTopic
    one = make.OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_metadata=metadata
    )
    topics = [make(name=topic, partitions=[one])]
    answer = ask(
        OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics, max_version=8
        )
    )
    return answer.topics[0].partitions[0].error_code


def produce(ask, topic, partition, batch):
    """Send Produce with one batch, and return the error code."""
    make = ProduceRequest.TopicProduceData
    topics = [make(name=topic, partition_data=[make.PartitionProduceData(index=partition, records=batch)])]
    answer = ask(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=topics, max_version=9))
    return answer.responses[0].partition_responses[0].error_code


def delete_offset(ask, group, topic, partition):
    """Send OffsetDelete, and return the error codes of the request and of the partition."""
    make = OffsetDeleteRequest.OffsetDeleteRequestTopic
    one = make.OffsetDeleteRequestPartition(partition_index=partition)
    answer = ask(OffsetDeleteRequest(group_id=group, topics=[make(name=topic, partitions=[one])], max_version=0))
    return answer.error_code, answer.topics[0].partitions[0].error_code


class Transaction:
    """A transaction of a producer with a transactional.id, for offsets of one group (3.9: the protocol before KIP-890).

    It has begun when the object is made.
    """

    def __init__(self, ask, transactional_id, group):
        self.ask = ask
        self.group = group
        ask(FindCoordinatorRequest(key_type=1, key=transactional_id, coordinator_keys=[], max_version=3))
        producer = self._send(
            InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=60_000,
                producer_id=-1,
                producer_epoch=-1,
                max_version=4,
            )
        )
        self.producer = {
            "transactional_id": transactional_id,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
        }
        self._send(AddOffsetsToTxnRequest(**self.producer, group_id=group, max_version=3))

    def commit(self, topic, partition, offset):
        """Send TxnOffsetCommit without a member, and return the error code."""
        make = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        one = make.TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
        )
        answer = self.ask(
            TxnOffsetCommitRequest(
                **self.producer,
                group_id=self.group,
                generation_id=-1,
                member_id="",
                group_instance_id=None,
                topics=[make(name=topic, partitions=[one])],
                max_version=3,
            )
        )
        return answer.topics[0].partitions[0].error_code

    def end(self, *, commits):
        """Send EndTxn. The marker follows a little later."""
        self._send(EndTxnRequest(**self.producer, committed=commits, max_version=3))

    def _send(self, request):
        """Send a request until its answer has no error. The transaction coordinator needs a while at first."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while (answer := self.ask(request)).error_code != NONE:
            assert time.monotonic() < deadline, answer
            time.sleep(0.1)
        return answer


def offsets(ask, groups, *, stable):
    """Fetch all offsets. Return, by group, the offsets by topic-partition or the error code."""
    return _fetched(ask, [(group, None) for group in groups], stable)


def named_offsets(ask, keys):
    """Fetch the topic-partitions in `keys` (by group) with requireStable."""
    named = []
    for group, partitions in keys.items():
        topics = {}
        for topic, _, partition in (key.rpartition("-") for key in partitions):
            topics.setdefault(topic, []).append(int(partition))
        named.append((group, topics))
    return _fetched(ask, named, True)


def _fetched(ask, named, stable):
    make = OffsetFetchRequest.OffsetFetchRequestGroup
    groups = [
        make(
            group_id=group,
            topics=topics
            and [make.OffsetFetchRequestTopics(name=name, partition_indexes=those) for name, those in topics.items()],
        )
        for group, topics in named
    ]
    answer = ask(OffsetFetchRequest(groups=groups, require_stable=stable, min_version=8, max_version=9))
    found = {}
    for group in answer.groups:
        found[group.group_id] = group.error_code or {
            f"{topic.name}-{p.partition_index}": (
                p.error_code or (p.committed_offset, p.committed_leader_epoch, p.metadata)
            )
            for topic in group.topics
            for p in topic.partitions
        }
    return found


def delete_groups(ask, groups):
    """Send DeleteGroups, and return the error code of each group."""
    answer = ask(DeleteGroupsRequest(groups_names=list(groups), max_version=2))
    return {result.group_id: result.error_code for result in answer.results}


def describe(ask, groups):
    """Send DescribeGroups, and return the description of each group."""
    answer = ask(DescribeGroupsRequest(groups=list(groups), include_authorized_operations=False, max_version=5))
    return {group.group_id: group for group in answer.groups}


def describe_consumer_groups(ask, version, groups):
    """Send ConsumerGroupDescribe to a broker of this version, and return each group's description as Kafka's JSON.

    kafka-python does not know the request, but Kafka's own jar has its declaration, in the same form.
    """

    def read(package, name):
        with zipfile.ZipFile(find_jars(version) / f"kafka-clients-{version}.jar") as jar:
            return jar.read(f"common/message/{name}").decode()

    with patch.object(importlib.resources, "read_text", read):

        class ConsumerGroupDescribeRequest(ApiMessage):
            pass

        class ConsumerGroupDescribeResponse(ApiMessage):
            pass

    answer = ask(ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=False))
    assert isinstance(answer, ConsumerGroupDescribeResponse)
    return {group.group_id: group for group in answer.groups}


def members_of(description):
    """Return the members in a description of a group, sorted, each as a tuple of its fields."""
    return sorted(
        (
            m.member_id,
            m.group_instance_id,
            m.client_id,
            m.client_host,
            m.member_metadata.hex(),
            m.member_assignment.hex(),
        )
        for m in description.members
    )


def listed(ask):
    """Send ListGroups. Return (protocol type, state, type) by group. The type is None before 3.8."""
    answer = ask(ListGroupsRequest(states_filter=[], types_filter=[], min_version=4, max_version=5))
    return {group.group_id: (group.protocol_type, group.group_state, group.group_type) for group in answer.groups}
