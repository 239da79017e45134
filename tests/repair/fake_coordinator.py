"""A broker on the loopback interface with topics, groups and their offsets, which a test changes at any request."""

from dataclasses import dataclass, field

from kafka.protocol.admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
)

from kafkagroups.repair.client import TOPIC
from tests.repair.fake_broker import VERSIONS, FakeBroker

GROUP_VERSIONS = {
    **VERSIONS,
    FindCoordinatorRequest: (0, 4),
    DescribeGroupsRequest: (0, 6),
    ListGroupsRequest: (0, 5),
    OffsetFetchRequest: (1, 9),
    OffsetCommitRequest: (2, 9),
}
"""The requests that the broker answers, each with its smallest and its largest version, as Kafka 4.1 does."""
OLD_VERSIONS = {
    FetchRequest: (4, 5),
    ListOffsetsRequest: (1, 2),
    ApiVersionsRequest: (0, 1),
    MetadataRequest: (4, 4),
    FindCoordinatorRequest: (0, 1),
    DescribeGroupsRequest: (0, 1),
    ListGroupsRequest: (0, 1),
    OffsetFetchRequest: (1, 3),
    OffsetCommitRequest: (2, 3),
}
"""The largest versions are those of Kafka 0.11."""
UNKNOWN_MEMBER = 25


@dataclass
class FakeGroup:
    """A group: its state and type, and (offset, metadata) by (topic, partition). `error` is the answer about it."""

    state: str = "Empty"
    type: str = "classic"
    offsets: dict = field(default_factory=dict)


class FakeCoordinator(FakeBroker):
    """One broker that leads every partition, and coordinates every group.

    `change` is called with the name of each request before it is answered. `commits` has
    every OffsetCommit request.
    """

    versions = GROUP_VERSIONS

    def __init__(self, topics):
        super().__init__()
        self.topics |= topics
        self.groups = {}
        self.commits = []
        self.change = lambda name: None

    def answer(self, request):
        self.change(type(request).__name__.removesuffix("Request"))
        return super().answer(request)

    def _usual_findcoordinator(self, request):
        self.topics.setdefault(TOPIC, [(0, 0)])  # A broker creates the topic at this request.
        code = self.find_error("FindCoordinator", request.key)
        return FindCoordinatorResponse(
            throttle_time_ms=0, error_code=code, error_message=None, node_id=1, host="127.0.0.1", port=self.port
        )

    def _usual_describegroups(self, request):
        kind = DescribeGroupsResponse.DescribedGroup
        groups = []
        for group_id in request.groups:
            group = self.groups.get(group_id)
            code = self.find_error("DescribeGroups", group_id)
            state = group.state if group is not None and group.type == "classic" else "Dead"
            groups.append(
                kind(
                    error_code=code,
                    group_id=group_id,
                    group_state="" if code else state,
                    protocol_type="",
                    protocol_data="",
                    members=[],
                    authorized_operations=set(),
                )
            )
        return DescribeGroupsResponse(throttle_time_ms=0, groups=groups)

    def _usual_listgroups(self, request):
        groups = [
            ListGroupsResponse.ListedGroup(
                group_id=group_id, protocol_type="", group_state=group.state, group_type=group.type
            )
            for group_id, group in self.groups.items()
        ]
        return ListGroupsResponse(throttle_time_ms=0, error_code=self.find_error("ListGroups", ""), groups=groups)

    def _usual_offsetfetch(self, request):
        assert request.require_stable or self.versions is OLD_VERSIONS
        kind = OffsetFetchResponse.OffsetFetchResponseTopic
        group = self.groups.get(request.group_id, FakeGroup())
        topics = []
        for topic in request.topics:
            partitions = []
            for number in topic.partition_indexes:
                offset, metadata = group.offsets.get((topic.name, number), (-1, ""))
                partitions.append(
                    kind.OffsetFetchResponsePartition(
                        partition_index=number,
                        committed_offset=offset,
                        committed_leader_epoch=-1,
                        metadata=metadata,
                        error_code=self.find_error("OffsetFetch", topic.name),
                    )
                )
            topics.append(kind(name=topic.name, partitions=partitions))
        code = self.find_error("OffsetFetch", request.group_id)
        return OffsetFetchResponse(throttle_time_ms=0, topics=topics, error_code=code)

    def _usual_offsetcommit(self, request):
        kind = OffsetCommitResponse.OffsetCommitResponseTopic
        self.commits.append(request)
        group = self.groups.setdefault(request.group_id, FakeGroup())
        topics = []
        for topic in request.topics:
            partitions = []
            for each in topic.partitions:
                code = self.find_error("OffsetCommit", request.group_id)
                code = code or self.find_error("OffsetCommit", (topic.name, each.partition_index))
                code = code or (0 if group.state == "Empty" else UNKNOWN_MEMBER)
                if not code:
                    group.offsets[topic.name, each.partition_index] = (each.committed_offset, each.committed_metadata)
                partitions.append(
                    kind.OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                )
            topics.append(kind(name=topic.name, partitions=partitions))
        return OffsetCommitResponse(throttle_time_ms=0, topics=topics)
