"""Requests about the partitions of one topic, sent to their leaders: where a log begins and ends.

If a leader moves or its broker is down, the request is sent again after a wait. Brokers before 0.11 are not supported,
because they create a missing topic when they receive a Metadata request.
Source (4.3.1): MetadataRequest.json; ListOffsetsRequest.json; KafkaApis.handleListOffsetRequest. What a request does
not set has the default of its schema: no session, no transaction, and a leader epoch that the broker does not check.

The connection uses the package kafka-python (`pip install 'kafkagroups[live]'`), but not its consumer. An error that a
user can fix is a UsageError of one line. Only one request is sent at a time, so a copy of the topic takes longer than
with other clients.
Source: kafka.net.manager and kafka.net.connection (kafka-python 3.0).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from kafkagroups.errors import UsageError
from kafkagroups.interrupts import insist_on_ctrl_c

if TYPE_CHECKING:
    from ssl import SSLContext

TOPIC = "__consumer_offsets"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MAX_RESPONSE_BYTES = 512 * 1024 * 1024
"""The largest response that is accepted.

It must exceed every batch, because a broker sends the first batch as a whole.
"""
MAX_WAIT_SECONDS = 30
"""The default limit of all waits of a command."""
CONNECT_SECONDS = 10.0
RESPONSE_SECONDS = 30.0
"""How long a request can take at most, with its connection and its response."""
MIN_REPORTED_SECONDS = 2.0
UNKNOWN_TOPIC_OR_PARTITION = 3
NO_LEADER = -1
RETRY_DELAYS = (0.1, 0.5, 1.0, 2.0, 4.0)
"""The waits before new attempts, in seconds, if a leader moves or its broker is down."""
# In a ListOffsets request, these timestamps mean the log start offset and the high watermark.
EARLIEST = -2
LATEST = -1
READ_UNCOMMITTED = 0
"""The isolation level that also returns the records of open and aborted transactions."""


@dataclass(frozen=True, slots=True)
class Security:
    """The security settings of a connection.

    `protocol` and `mechanism` are Kafka's settings security.protocol and sasl.mechanism (None without SASL).
    OAUTHBEARER has no user, and its password is the token. GSSAPI and AWS_MSK_IAM have neither, because they find what
    Kerberos' and AWS' own programs use; `service` is the Kerberos service name of the brokers. The files are in the
    format PEM: `cafile` has the brokers' certificate authorities (None: those of the system), and `certfile` the
    client's certificate, with its private key if `keyfile` is None. `key_password` is None if the key is not encrypted.
    `check_hostname` says whether the host name in a broker's certificate must be the name of the broker.
    """

    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    service: str = "kafka"
    cafile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True


def ignore_report(message: str) -> None: ...


class Connection(TypedDict, total=False):
    """Parameters of `connect`, and of the functions that use it."""

    security: Security | None
    max_wait: float
    on_wait: Callable[[str], None]


@dataclass
class Waits:
    """The waits of one command, for connections, responses, quotas and new leaders, which have a limit together.

    A request that is answered is no wait. `report` is called with what the command waits for, if that is longer than
    MIN_REPORTED_SECONDS.
    """

    limit_seconds: float
    report: Callable[[str], None]
    seconds_left: float = 0

    def __post_init__(self) -> None:
        if not self.limit_seconds > 0:
            raise UsageError(f"max_wait: expected more than 0 seconds, found {self.limit_seconds}")
        self.seconds_left = self.limit_seconds

    @property
    def are_over(self) -> bool:
        return self.seconds_left <= 0

    def explain_end(self) -> str:
        return f"; the limit of all waits is {self.limit_seconds:g} s (--max-wait)" if self.are_over else ""

    def wait_for(self, net: Any, future: Any, subject: str) -> bool:
        """Return False if the time ends before."""
        start = time.monotonic()
        seconds = min(RESPONSE_SECONDS, self.seconds_left)
        with insist_on_ctrl_c():
            net.poll(timeout_ms=1000 * min(MIN_REPORTED_SECONDS, seconds), future=future)
            if not future.is_done and seconds > MIN_REPORTED_SECONDS:
                self.report(f"waiting for {subject}")
                net.poll(timeout_ms=1000 * (seconds - MIN_REPORTED_SECONDS), future=future)
        if not future.is_done or future.exception is not None:
            self.seconds_left -= time.monotonic() - start
        return bool(future.is_done)

    def sleep(self, net: Any, seconds: float, reason: str) -> None:
        """Wait. If less time is left, do not wait at all: the limit is then reached."""
        is_too_long = seconds > self.seconds_left
        if seconds >= MIN_REPORTED_SECONDS:
            lack = f", but only {max(self.seconds_left, 0):.1f} s are left" if is_too_long else ""
            self.report(f"waiting {seconds:.1f} s{lack}: {reason}")
        if not is_too_long:
            net.run(net.sleep, seconds)
        self.seconds_left -= seconds


T = TypeVar("T")


class NoBroker(UsageError):
    """No broker responds. `errors` has the error of each broker that was asked."""

    def __init__(self, cluster: Cluster, errors: list[Any]) -> None:
        reasons = f": {'; '.join(map(describe_error, errors))}" if errors else ""
        super().__init__(f"no broker responds{reasons}{cluster.waits.explain_end()}")
        self.errors = errors


class TopicRefused(UsageError):
    """The topic does not exist, or the user may not describe or read it."""


class NoSuchTopic(TopicRefused): ...


@dataclass
class Cluster:
    """A cluster, and the leaders of the partitions of one topic, usually the offsets topic.

    `net` and `manager` are kafka-python's event loop and connection manager. `leaders` has the broker id of each
    partition's leader, or NO_LEADER.
    """

    net: Any
    manager: Any
    bootstrap: list[Any]
    waits: Waits
    leaders: dict[int, int] = field(default_factory=dict)
    topic: str = TOPIC
    topic_id: str | None = None

    def send(self, broker_id: int | str, request: Any) -> Any:
        """Raises NodeNotReadyError right after a failed connection to this broker, and otherwise KafkaConnectionError
        if there is no response.
        """
        from kafka.errors import KafkaConnectionError, NodeNotReadyError

        connection: Any = None

        async def connect_and_send() -> Any:
            nonlocal connection
            connection = self.manager.get_connection(
                broker_id, timeout_ms=CONNECT_SECONDS * 1000, refresh_metadata_on_err=False
            )
            await connection
            return await connection.send_request(request)

        broker = self.manager.cluster.broker_metadata(broker_id)
        address = f"{broker.host}:{broker.port}" if broker else f"broker {broker_id}"
        future = self.net.call_soon_with_future(connect_and_send)
        if not self.waits.wait_for(self.net, future, f"{address} to answer a {request.name}"):
            error = KafkaConnectionError(f"{address}: no answer to a {request.name}")
            if connection is not None:
                connection.close(error)  # Otherwise, a late response could be read as the response to the next request.
            raise error
        if isinstance(future.exception, NodeNotReadyError):
            raise future.exception
        if future.exception is not None:  # It can be any exception, not only a KafkaError.
            reason = self._explain_refusal(connection) or describe_error(future.exception)
            raise KafkaConnectionError(f"{address}: {reason}")
        response = future.value
        if response.throttle_time_ms > 0:
            reason = f"{address} asks this client to wait, because a quota is exceeded"
            self.waits.sleep(self.net, response.throttle_time_ms / 1000, reason)
        return response

    def _explain_refusal(self, connection: Any) -> str | None:
        """A broker closes a connection after a wrong protocol or password, and kafka-python often loses the message
        that it has sent.
        """
        failure = connection.init_future.exception if connection is not None else None
        if failure is None or "disconnected" not in str(failure):
            return None
        # The broker sends the versions of its APIs before the login. So if they were received, the login failed.
        if connection.broker_version_data is not None and connection.sasl_enabled:
            return "the broker closed the connection at the login: check the SASL mechanism, the user and the password"
        protocol = self.manager.config["security_protocol"]
        return f"the broker closed the connection: check that this port uses {protocol}"

    def ask_any_broker(self, request: Any, read: Callable[[Any], T]) -> T:
        """Ask one broker after another until `read` can use a response, and return its result.

        Raises NoBroker if no broker responds.
        """
        from kafka.errors import KafkaError

        errors = []
        for broker in [*self.manager.cluster.brokers(), *self.bootstrap]:
            if self.waits.are_over:
                break
            try:
                return read(self.send(broker.node_id, request))
            except KafkaError as error:
                errors.append(error)
        raise NoBroker(self, errors)

    def retry(self, explain: Callable[[], str]) -> Iterator[None]:
        """Yield for each attempt. Between two, wait, and update the leaders. `explain` says why to wait."""
        yield
        for delay in RETRY_DELAYS:
            if self.waits.are_over:
                return
            self.waits.sleep(self.net, delay, explain())
            with suppress(UsageError):  # If this fails, the next attempt uses the earlier leaders.
                self.refresh_leaders()
            yield

    def refresh_leaders(self) -> None:
        """Update the cluster's brokers and leaders. Raises TopicRefused or NoBroker."""
        from kafka.protocol.metadata import MetadataRequest

        topic = MetadataRequest.MetadataRequestTopic(name=self.topic)
        # A Metadata request before version 4 would create a missing topic.
        request = MetadataRequest(topics=[topic], allow_auto_topic_creation=False, min_version=4, max_version=10)
        metadata = self.ask_any_broker(request, self._read_metadata)
        if metadata.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            explanation = ": no group has ever committed an offset" if self.topic == TOPIC else ""
            raise NoSuchTopic(f"the cluster has no topic {self.topic}{explanation}")
        if metadata.error_code:
            raise TopicRefused(f"{self.topic}: {describe_code(metadata.error_code)}")
        self.leaders = {partition.partition_index: partition.leader_id for partition in metadata.partitions}
        topic_id = getattr(metadata, "topic_id", None)  # since version 10
        self.topic_id = str(topic_id) if topic_id and topic_id.int else None

    def _read_metadata(self, response: Any) -> Any:
        """Raises KafkaConnectionError if a Kafka broker cannot have sent this response."""
        from kafka.errors import KafkaConnectionError

        topics = response.topics or []
        if [topic.name for topic in topics] != [self.topic]:
            raise KafkaConnectionError(f"expected metadata of the topic {self.topic}, found {len(topics)} topics")
        partition_numbers = [partition.partition_index for partition in topics[0].partitions]
        if len(set(partition_numbers)) < len(partition_numbers) or min(partition_numbers, default=0) < 0:
            raise KafkaConnectionError(
                "expected metadata of each partition, found a partition twice or a negative number"
            )
        try:
            self.manager.cluster.update_metadata(response)
        except Exception as error:  # kafka-python does not check the response's list of brokers.
            raise KafkaConnectionError(f"the metadata cannot be read: {describe_error(error)}") from None
        return topics[0]

    def ask_leaders(
        self, partitions: list[int], build_request: Callable[[list[int]], Any]
    ) -> tuple[dict[int, Any], dict[int, str]]:
        """Ask the leaders of partitions, and return two dicts by partition: the responses and the errors.

        An error that can be temporary is retried. Raises TopicRefused.
        """
        from kafka import errors as kafka_errors

        responses: dict[int, Any] = {}
        errors: dict[int, Any] = {}
        no_leader = kafka_errors.LeaderNotAvailableError()
        pending = sorted(partitions)
        for _ in self.retry(lambda: f"partition {pending[0]} has no leader that answers"):
            partitions_of_leader: dict[int, list[int]] = {}
            for partition in pending:
                partitions_of_leader.setdefault(self.leaders.get(partition, NO_LEADER), []).append(partition)
            for leader, requested in partitions_of_leader.items():
                if self.waits.are_over:
                    break
                if leader == NO_LEADER:
                    errors |= dict.fromkeys(requested, no_leader)
                    continue
                try:
                    response = self.send(leader, build_request(requested))
                except kafka_errors.NodeNotReadyError:
                    continue  # `errors` keeps an earlier error, which explains why the broker is not ready.
                except kafka_errors.KafkaError as error:
                    errors |= dict.fromkeys(requested, error)
                    continue
                for partition, result in self._partition_results(response):
                    if partition not in requested:
                        continue
                    if not result.error_code:
                        responses[partition] = result
                        continue
                    errors[partition] = kafka_errors.for_code(result.error_code)()
                    if isinstance(errors[partition], kafka_errors.AuthorizationError):
                        raise TopicRefused(f"{self.topic}: {describe_error(errors[partition])}")
            final = {*responses, *(partition for partition, error in errors.items() if not error.retriable)}
            pending[:] = [partition for partition in pending if partition not in final]
            if not pending:
                break
        no_answer = "no time is left" if self.waits.are_over else describe_error(no_leader)
        reasons = {partition: describe_error(error) for partition, error in errors.items()}
        return responses, {number: reasons.get(number, no_answer) for number in partitions if number not in responses}

    def _partition_results(self, response: Any) -> Iterator[tuple[int, Any]]:
        for topic in (response.topics if response.name == "ListOffsetsResponse" else response.responses) or ():
            if (topic.topic if response.name == "FetchResponse" else topic.name) != self.topic:
                continue
            yield from ((result.partition_index, result) for result in topic.partitions)

    def ask_log_ranges(self, partitions: list[int]) -> tuple[dict[int, tuple[int, int]], dict[int, str]]:
        """Return two dicts by partition: (log start offset, high watermark), and the text of the error.

        Raises TopicRefused.
        """
        starts, start_errors = self.ask_leaders(partitions, partial(_build_list_offsets, self.topic, EARLIEST))
        ends, end_errors = self.ask_leaders(list(starts), partial(_build_list_offsets, self.topic, LATEST))
        errors = start_errors | end_errors
        ranges = {}
        for number in ends:
            start = starts[number].offset
            end = ends[number].offset
            if 0 <= start <= end:
                ranges[number] = (start, end)
            else:
                errors[number] = f"the leader answers that the log begins at offset {start} and ends at offset {end}"
        return ranges, errors


@contextmanager
def connect(
    bootstrap: str,
    security: Security | None = None,
    max_wait: float = MAX_WAIT_SECONDS,
    on_wait: Callable[[str], None] = ignore_report,
) -> Iterator[Cluster]:
    """Connect to a cluster, and disconnect at the end of the `with` block.

    `security` None means PLAINTEXT. `max_wait` limits all waits together, in seconds, and `on_wait` is called with a
    message about a longer wait (`Waits`). Raises UsageError if kafka-python is not installed or a setting is wrong.
    """
    waits = Waits(max_wait, on_wait)
    try:
        from kafka.net.manager import KafkaConnectionManager
        from kafka.net.selector import NetworkSelector
    except ImportError:
        raise UsageError(
            "this command needs the Python package kafka-python: pip install 'kafkagroups[live]'"
        ) from None
    config = _build_config(bootstrap, security or Security())
    net = NetworkSelector(**config)
    manager = KafkaConnectionManager(net, **config)
    try:
        yield Cluster(net, manager, manager.cluster.bootstrap_brokers(), waits)
    finally:
        manager.close()
        net.close()


def _build_config(bootstrap: str, security: Security) -> dict[str, Any]:
    servers = bootstrap.split(",")
    for server in servers:
        host, _, port = server.rpartition(":")
        is_port = re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 65536
        if not host or not is_port:
            raise UsageError(f"bootstrap: expected HOST:PORT of a broker, found {server!r}")
    uses_sasl = security.protocol.startswith("SASL")
    uses_tls = security.protocol.endswith("SSL")
    lacks_mechanism = uses_sasl and security.mechanism not in MECHANISMS
    if security.protocol not in PROTOCOLS or lacks_mechanism:
        raise UsageError(
            f"security protocol: expected one of {', '.join(PROTOCOLS)}; "
            f"SASL needs a mechanism: {', '.join(MECHANISMS)}"
        )
    if not uses_sasl and (security.mechanism or security.user):
        raise UsageError(f"a SASL mechanism and a user need SASL_SSL or SASL_PLAINTEXT, not {security.protocol}")
    if security.mechanism == "OAUTHBEARER":
        if security.password is None:
            raise UsageError("the SASL mechanism OAUTHBEARER needs a token as its password, and no user")
    elif security.mechanism == "AWS_MSK_IAM":
        if not uses_tls or find_spec("botocore") is None:
            raise UsageError("AWS_MSK_IAM needs SASL_SSL, and the Python package botocore: pip install botocore")
    elif uses_sasl and security.mechanism != "GSSAPI" and (security.user is None or security.password is None):
        raise UsageError(f"the SASL mechanism {security.mechanism} needs a user and a password")
    if not uses_tls and (security.cafile or security.certfile or security.keyfile):
        raise UsageError(f"certificates need SSL or SASL_SSL, not {security.protocol}")
    return {
        "bootstrap_servers": servers,
        "client_id": "kafkagroups",
        "receive_message_max_bytes": MAX_RESPONSE_BYTES,
        "security_protocol": security.protocol,
        "ssl_context": _load_certificates(security) if uses_tls else None,
        "sasl_mechanism": security.mechanism,
        "sasl_plain_username": security.user,
        "sasl_plain_password": security.password,
        "sasl_kerberos_service_name": security.service,
        "sasl_oauth_token_provider": _make_token_provider(security.password),
    }


def _make_token_provider(token: str | None) -> Any:
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Token(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str | None:
            return token

    return Token()


def _load_certificates(security: Security) -> SSLContext:
    import ssl  # Imported here, because it takes a while, and most programs never connect.

    path = security.cafile
    try:
        context = ssl.create_default_context(cafile=path)
        context.check_hostname = security.check_hostname
        if security.certfile or security.keyfile:
            path = security.certfile or security.keyfile or ""
            # Without a password argument, OpenSSL would ask for a password in the terminal.
            context.load_cert_chain(path, security.keyfile, security.key_password or "")
    except OSError as error:  # ssl.SSLError is an OSError too.
        raise UsageError(f"{path}: not a usable PEM file: {error.strerror or error}") from None
    return context


def describe_error(error: Any) -> str:
    """An error of kafka-python in one line. A connection error's message says enough without its name."""
    # In kafka-python, the attribute `message` is Kafka's name of the error, and `args` contains the message.
    name = str(getattr(error, "message", None) or type(error).__name__)
    message = " ".join(", ".join(str(part) for part in error.args if part).split())
    if not message:
        return name
    return message if name == "KafkaConnectionError" else f"{name}: {message}"


def describe_code(code: int) -> str:
    from kafka.errors import for_code

    return describe_error(for_code(code)())


def _build_list_offsets(topic: str, timestamp: int, partitions: list[int]) -> Any:
    from kafka.protocol.consumer import ListOffsetsRequest

    topic_type = ListOffsetsRequest.ListOffsetsTopic
    partition_type = topic_type.ListOffsetsPartition
    partition_requests = [partition_type(partition_index=partition, timestamp=timestamp) for partition in partitions]
    return ListOffsetsRequest(
        replica_id=-1,  # a consumer; replicas on other brokers send their broker id
        isolation_level=READ_UNCOMMITTED,
        topics=[topic_type(name=topic, partitions=partition_requests)],
        min_version=1,
        max_version=7,
    )


def create_topics(bootstrap: str, partition_counts: Mapping[str, int], records: int) -> None:
    """Create topics with one replica, and append the same number of empty records to each partition.

    A test of a rescue needs topics that reach the committed offsets, because other offsets are refused. Raises
    UsageError if a topic exists, or if no broker responds.
    """
    from kafka import KafkaAdminClient, KafkaProducer
    from kafka.admin import NewTopic
    from kafka.errors import KafkaError

    topics = [NewTopic(name, count, 1) for name, count in partition_counts.items()]
    try:
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
            admin.create_topics(topics, wait_for_metadata=True)
        with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
            for topic in topics:
                for number in range(records * topic.num_partitions):
                    producer.send(topic.name, b"", partition=number % topic.num_partitions)
    except KafkaError as error:
        raise UsageError(describe_error(error)) from None
