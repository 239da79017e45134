"""A broker on the loopback interface that answers as a test says: wrong, slowly, or not at all."""

import struct
import threading
import time
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingTCPServer

from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse

from kafkagroups.repair.client import TOPIC

VERSIONS = {FetchRequest: (4, 12), ListOffsetsRequest: (1, 7), ApiVersionsRequest: (0, 3), MetadataRequest: (4, 9)}
"""The requests that the broker answers, each with its smallest and its largest version."""
SILENT = object()
"""An answer that is never sent."""


class FakeBroker:
    """One broker that leads every partition, with the same log in each.

    A test replaces a part of the answers: `answer_fetch`, `answer_offsets` or `answer_metadata`. Each of them gets the
    usual response, and returns the response to send, its bytes, or SILENT. `asked` counts the requests by name.
    """

    versions = VERSIONS

    def __init__(self, log, end_offset, partitions=1):
        self.log = log
        self.end_offset = end_offset
        self.partitions = partitions
        self.asked = {}
        self.port = 0

    def answer(self, request):
        name = type(request).__name__.removesuffix("Request")
        self.asked[name] = self.asked.get(name, 0) + 1
        usual = getattr(self, f"_usual_{name.lower()}")(request)
        return getattr(self, f"answer_{name.lower()}")(usual)

    def answer_apiversions(self, response):
        return response

    def answer_metadata(self, response):
        return response

    def answer_listoffsets(self, response):
        return response

    def answer_fetch(self, response):
        return response

    def _usual_apiversions(self, request):
        keys = [
            ApiVersionsResponse.ApiVersion(api_key=kind.API_KEY, min_version=first, max_version=last)
            for kind, (first, last) in self.versions.items()
        ]
        return ApiVersionsResponse(error_code=0, api_keys=keys, throttle_time_ms=0)

    def _usual_metadata(self, request):
        kind = MetadataResponse.MetadataResponseTopic
        partitions = [
            kind.MetadataResponsePartition(
                error_code=0, partition_index=number, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
            )
            for number in range(self.partitions)
        ]
        broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port, rack=None)
        topic = kind(error_code=0, name=TOPIC, is_internal=True, partitions=partitions)
        return MetadataResponse(
            throttle_time_ms=0, brokers=[broker], cluster_id="fake", controller_id=1, topics=[topic]
        )

    def _usual_listoffsets(self, request):
        kind = ListOffsetsResponse.ListOffsetsTopicResponse
        partitions = [
            kind.ListOffsetsPartitionResponse(
                partition_index=partition.partition_index,
                error_code=0,
                timestamp=-1,
                offset=0 if partition.timestamp == -2 else self.end_offset,
                leader_epoch=0,
            )
            for partition in request.topics[0].partitions
        ]
        return ListOffsetsResponse(throttle_time_ms=0, topics=[kind(name=TOPIC, partitions=partitions)])

    def _usual_fetch(self, request):
        kind = FetchResponse.FetchableTopicResponse
        partitions = [
            kind.PartitionData(
                partition_index=partition.partition,
                error_code=0,
                high_watermark=self.end_offset,
                last_stable_offset=self.end_offset,
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
                        response.API_VERSION = version
                        response.with_header(correlation_id=struct.unpack_from(">i", data, 4)[0])
                        response = response.encode(header=True, framed=True)
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
