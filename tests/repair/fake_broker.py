"""A broker on the loopback interface that answers as a test says: wrong, slowly, or not at all."""

import struct
import threading
import time
from collections import Counter
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingTCPServer

from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse

from kafkagroups.repair.client import TOPIC

VERSIONS = {FetchRequest: (4, 12), ListOffsetsRequest: (1, 7), ApiVersionsRequest: (0, 3), MetadataRequest: (4, 9)}
"""The requests that the broker answers, each with its smallest and its largest version."""
UNKNOWN_TOPIC = 3
SILENT = object()
"""An answer that is never sent."""


class FakeBroker:
    """One broker that leads every partition, with the same log in each partition of the offsets topic.

    A test replaces a part of the answers: `answer_fetch`, `answer_listoffsets` or `answer_metadata`. Each of them gets
    the usual response, and returns the response to send, its bytes, or SILENT. `topics` has the log start offset and
    the end of each partition. `errors` has error codes: by the name of a request, or by (name, topic or group).
    `leader` is the node that leads, which is this one, 1, or one of `others`, which has ports by node.
    """

    versions = VERSIONS

    def __init__(self, log=b"", end_offset=0, partitions=1):
        self.log = log
        self.topics = {TOPIC: [(0, end_offset)] * partitions}
        self.errors = {}
        self.requests = []
        self.leader = 1
        self.others = {}
        self.port = 0

    @property
    def asked(self):
        """How many requests came, by their names."""
        return Counter(type(request).__name__.removesuffix("Request") for request in self.requests)

    def answer(self, request):
        name = type(request).__name__.removesuffix("Request").lower()
        self.requests.append(request)
        return getattr(self, f"answer_{name}")(getattr(self, f"_usual_{name}")(request))

    def frame(self, response, version, correlation_id):
        """Return the bytes of a response, with their number in front."""
        response.API_VERSION = version
        response.with_header(correlation_id=correlation_id)
        return response.encode(header=True, framed=True)

    def __getattr__(self, name):
        if name.startswith("answer_"):
            return lambda response: response
        raise AttributeError(name)

    def find_error(self, name, key):
        """The error code for a request about a topic or a group. A list of codes is used up one after another."""
        code = self.errors.get((name, key), self.errors.get(name, 0))
        if isinstance(code, list):
            return code.pop(0) if code else 0
        return code

    def _usual_apiversions(self, request):
        keys = [
            ApiVersionsResponse.ApiVersion(api_key=kind.API_KEY, min_version=first, max_version=last)
            for kind, (first, last) in self.versions.items()
        ]
        return ApiVersionsResponse(error_code=0, api_keys=keys, throttle_time_ms=0)

    def _usual_metadata(self, request):
        kind = MetadataResponse.MetadataResponseTopic
        topics = []
        for topic in request.topics:
            ranges = self.topics.get(topic.name)
            code = self.find_error("Metadata", topic.name) or (0 if ranges is not None else UNKNOWN_TOPIC)
            partitions = [
                kind.MetadataResponsePartition(
                    error_code=0,
                    partition_index=number,
                    leader_id=self.leader,
                    leader_epoch=0,
                    replica_nodes=[1],
                    isr_nodes=[1],
                )
                for number in range(0 if code else len(ranges))
            ]
            topics.append(kind(error_code=code, name=topic.name, is_internal=False, partitions=partitions))
        brokers = [
            MetadataResponse.MetadataResponseBroker(node_id=node, host="127.0.0.1", port=port, rack=None)
            for node, port in {1: self.port, **self.others}.items()
        ]
        return MetadataResponse(throttle_time_ms=0, brokers=brokers, cluster_id="fake", controller_id=1, topics=topics)

    def _usual_listoffsets(self, request):
        kind = ListOffsetsResponse.ListOffsetsTopicResponse
        topics = []
        for topic in request.topics:
            partitions = [
                kind.ListOffsetsPartitionResponse(
                    partition_index=each.partition_index,
                    error_code=self.find_error("ListOffsets", topic.name),
                    timestamp=-1,
                    offset=self.topics[topic.name][each.partition_index][0 if each.timestamp == -2 else 1],
                    leader_epoch=0,
                )
                for each in topic.partitions
            ]
            topics.append(kind(name=topic.name, partitions=partitions))
        return ListOffsetsResponse(throttle_time_ms=0, topics=topics)

    def _usual_fetch(self, request):
        kind = FetchResponse.FetchableTopicResponse
        partitions = [
            kind.PartitionData(
                partition_index=partition.partition,
                error_code=0,
                high_watermark=self.topics[TOPIC][partition.partition][1],
                last_stable_offset=self.topics[TOPIC][partition.partition][1],
                log_start_offset=0,
                aborted_transactions=[],
                preferred_read_replica=-1,
                records=self.log,
            )
            for partition in request.topics[0].partitions
        ]
        topics = [kind(topic=TOPIC, partitions=partitions)]
        return FetchResponse(throttle_time_ms=0, error_code=0, session_id=0, responses=topics)

    @contextmanager
    def running(self):
        """Serve in threads. Yield HOST:PORT."""
        broker = self
        requests = {request.API_KEY: request for request in self.versions}

        class Handler(StreamRequestHandler):
            def handle(self):
                while size := self.rfile.read(4):
                    data = self.rfile.read(struct.unpack(">i", size)[0])
                    api_key, version = struct.unpack_from(">hh", data)
                    request = requests[api_key].decode(data, version=version, header=True)
                    response = broker.answer(request)
                    if response is SILENT:
                        time.sleep(0.1)
                        continue
                    if not isinstance(response, bytes):
                        response = broker.frame(response, version, *struct.unpack_from(">i", data, 4))
                    self.wfile.write(response)

        class Server(ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, request, client_address):
                pass  # The client closes connections when it has waited long enough.

        with Server(("127.0.0.1", 0), Handler) as server:
            self.port = server.server_address[1]
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            try:
                yield f"127.0.0.1:{self.port}"
            finally:
                server.shutdown()
