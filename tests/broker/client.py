"""Questions to a broker in Kafka's own protocol, by the client that `pull` uses too."""

from contextlib import contextmanager

from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

NONE = 0


@contextmanager
def asking(address):
    """A function that sends a request to the broker there and gives its answer."""
    config = {"bootstrap_servers": address, "receive_message_max_bytes": 100_000_000}
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
    """Any such question makes the broker create __consumer_offsets."""
    return ask(FindCoordinatorRequest(key_type=0, key=group, coordinator_keys=[group], max_version=3))


def offsets(ask, groups, *, stable):
    """OffsetFetch of all topics: by group the offsets by topic-partition, or the error's code."""
    named = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    answer = ask(OffsetFetchRequest(groups=named, require_stable=stable, min_version=8, max_version=9))
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


def describe(ask, groups):
    """DescribeGroups: by group its answer."""
    answer = ask(DescribeGroupsRequest(groups=list(groups), include_authorized_operations=False, max_version=5))
    return {group.group_id: group for group in answer.groups}


def listed(ask):
    """ListGroups: by group (protocol type, state, type); the type is None before 3.8."""
    answer = ask(ListGroupsRequest(states_filter=[], types_filter=[], min_version=4, max_version=5))
    return {group.group_id: (group.protocol_type, group.group_state, group.group_type) for group in answer.groups}
