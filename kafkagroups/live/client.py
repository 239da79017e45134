"""The connection to a running cluster, which sends requests to partitions' leaders.

The client is kafka-python (extra `live`); its consumer API is not used. Every request goes to the leader of its
partitions. If the leader moves or its broker is down, the request is sent again after a wait. An error that a user can
fix is a UsageError of one line: for example, kafka-python is not installed, no broker responds, the topic does not
exist, or the user has no permission.
Source: MetadataRequest.json (4.3.1); kafka.net.manager, kafka.net.connection (kafka-python 3.0).

Simpler than a client: only one request is sent at a time. Brokers before 0.11 are not supported, because a Metadata
request makes them create a missing topic.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from kafkagroups.errors import UsageError

TOPIC = "__consumer_offsets"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
INSTALL = "pull needs the Python package kafka-python: run `pip install '.[live]'` in the project's folder"
CONNECT_SECONDS = 10.0
UNKNOWN_TOPIC_OR_PARTITION = 3
MAX_RESPONSE_BYTES = 512 * 1024 * 1024
"""The largest response that is accepted. A broker always sends a batch as a whole, even if the batch is large."""
RETRY_DELAYS = (0.1, 0.5, 1.0, 2.0, 4.0)
"""The waits, in seconds, before a request is sent again while a leader moves or its broker is down."""


@dataclass(frozen=True, slots=True)
class Security:
    """How to connect. `protocol` and `mechanism` are Kafka's security.protocol and sasl.mechanism.

    `cafile`, `certfile` and `keyfile` are paths of PEM files: the certificates of the authorities, the client's
    certificate and the client's key. `user` and `password` are for SASL, `service` is the brokers' service name for
    Kerberos (GSSAPI).
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


@dataclass
class Cluster:
    """A cluster, and the leader of each partition of the offsets topic.

    `net` is kafka-python's event loop and `manager` its connection manager. `bootstrap` are the brokers that the user
    named. `leaders` maps a partition to the id of its leader; -1 means that it has no leader.
    """

    net: Any
    manager: Any
    bootstrap: list[Any]
    leaders: dict[int, int] = field(default_factory=dict)


@contextmanager
def connect(bootstrap: str, security: Security) -> Iterator[Cluster]:
    """Connect to a cluster. Raises UsageError if kafka-python is not installed or the settings are wrong."""
    try:
        from kafka.net.manager import KafkaConnectionManager
        from kafka.net.selector import NetworkSelector
    except ImportError:
        raise UsageError(INSTALL) from None
    config = _build_config(bootstrap, security)
    net = NetworkSelector(**config)
    manager = KafkaConnectionManager(net, **config)
    try:
        yield Cluster(net, manager, manager.cluster.bootstrap_brokers())
    finally:
        manager.close()
        net.close()


def _build_config(bootstrap: str, security: Security) -> dict[str, Any]:
    """Return kafka-python's settings. Raises UsageError if a setting is wrong or missing."""
    servers = bootstrap.split(",")
    for server in servers:
        host, _, port = server.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise UsageError(f"bootstrap: expected HOST:PORT of a broker, found {server!r}")
    uses_sasl = security.protocol.startswith("SASL")
    uses_tls = security.protocol.endswith("SSL")
    if security.protocol not in PROTOCOLS or (uses_sasl and security.mechanism not in MECHANISMS):
        raise UsageError(
            f"security protocol: expected one of {', '.join(PROTOCOLS)}; "
            f"SASL needs a mechanism: {', '.join(MECHANISMS)}"
        )
    if not uses_sasl and (security.mechanism or security.user):
        raise UsageError(f"a SASL mechanism and a user need SASL_SSL or SASL_PLAINTEXT, not {security.protocol}")
    if uses_sasl and security.mechanism != "GSSAPI" and (security.user is None or security.password is None):
        raise UsageError(f"{security.mechanism} needs a user and a password")
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
    }


def _load_certificates(security: Security) -> ssl.SSLContext:
    file = security.cafile
    try:
        context = ssl.create_default_context(cafile=file)
        context.check_hostname = security.check_hostname
        if file := security.certfile or security.keyfile:
            context.load_cert_chain(file, security.keyfile, security.key_password or "")
    except OSError as error:  # This includes ssl.SSLError.
        raise UsageError(f"{file}: not a usable PEM file: {error.strerror or error}") from None
    return context


def _send(cluster: Cluster, node: int | str, request: Any) -> Any:
    """Send a request to a broker and return the response. `node` is kafka-python's id of the broker.

    Raises a KafkaError if there is no response: NodeNotReadyError if kafka-python still waits before it connects again
    after an earlier error, and KafkaConnectionError otherwise.
    """
    from kafka.errors import KafkaConnectionError, NodeNotReadyError

    connection: Any = None

    async def connect_and_send() -> Any:
        nonlocal connection
        connection = cluster.manager.get_connection(
            node, timeout_ms=CONNECT_SECONDS * 1000, refresh_metadata_on_err=False
        )
        await connection
        return await connection.send_request(request)

    try:
        response = cluster.net.run(connect_and_send)
    except NodeNotReadyError:
        raise
    except Exception as error:  # kafka-python does not catch all errors, for example of a missing library.
        broker = cluster.manager.cluster.broker_metadata(node)
        address = f"{broker.host}:{broker.port}" if broker else f"broker {node}"
        reason = _explain_drop(cluster, connection) if _is_dropped(connection) else describe(error)
        raise KafkaConnectionError(f"{address}: {reason}") from None
    if response.throttle_time_ms:
        cluster.net.run(cluster.net.sleep, response.throttle_time_ms / 1000)
    return response


def _is_dropped(connection: Any) -> bool:
    """Return whether the broker closed the connection before the connection was ready.

    A broker refuses a client in this way. kafka-python often loses the error message that the broker has sent.
    """
    failure = connection.init_future.exception if connection is not None else None
    return failure is not None and "disconnected" in str(failure)


def _explain_drop(cluster: Cluster, connection: Any) -> str:
    """Return the probable reason why the broker closed the connection."""
    if connection.broker_version_data is not None and connection.sasl_enabled:
        return "the broker closed the connection at the login: check the SASL mechanism, the user and the password"
    protocol = cluster.manager.config["security_protocol"]
    return f"the broker closed the connection: check that this port uses {protocol}"


def refresh(cluster: Cluster) -> None:
    """Update the brokers and leaders from the first broker that responds.

    Raises UsageError if no broker responds, the topic does not exist, or the user has no permission.
    """
    from kafka.errors import KafkaError, for_code
    from kafka.protocol.metadata import MetadataRequest

    topic = MetadataRequest.MetadataRequestTopic(name=TOPIC)
    failures = []
    for broker in [*cluster.manager.cluster.brokers(), *cluster.bootstrap]:
        # Before version 4 a request has no allow_auto_topic_creation, and the broker would create the topic.
        request = MetadataRequest(topics=[topic], allow_auto_topic_creation=False, min_version=4, max_version=9)
        try:
            response = _send(cluster, broker.node_id, request)
        except KafkaError as error:
            failures.append(describe(error))
            continue
        cluster.manager.cluster.update_metadata(response)
        (metadata,) = response.topics
        if metadata.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            raise UsageError(f"the cluster has no topic {TOPIC}: no group has ever committed an offset")
        if metadata.error_code:
            raise UsageError(f"{TOPIC}: {describe(for_code(metadata.error_code)())}")
        cluster.leaders = {partition.partition_index: partition.leader_id for partition in metadata.partitions}
        return
    raise UsageError(f"no broker responds: {'; '.join(failures)}")


def ask_leaders(
    cluster: Cluster, partitions: list[int], build_request: Callable[[list[int]], Any]
) -> tuple[dict[int, Any], dict[int, Any]]:
    """Send a request about some partitions to their leaders. Return the responses and the errors, by partition.

    `build_request` is called with the partitions of one leader, and returns the request for this leader. If an error
    may be temporary, the request is sent again after a wait. Raises UsageError if the user has no permission.
    """
    from kafka.errors import AuthorizationError, KafkaError, LeaderNotAvailableError, NodeNotReadyError, for_code

    responses: dict[int, Any] = {}
    errors: dict[int, Any] = {}
    pending = set(partitions)
    for delay in (*RETRY_DELAYS, None):
        partitions_of_leader: dict[int, list[int]] = {}
        for partition in sorted(pending):
            partitions_of_leader.setdefault(cluster.leaders.get(partition, -1), []).append(partition)
        for leader, requested in partitions_of_leader.items():
            try:
                if leader < 0:
                    raise LeaderNotAvailableError()
                response = _send(cluster, leader, build_request(requested))
            except KafkaError as error:
                if not isinstance(error, NodeNotReadyError):  # The earlier error tells more, so it is kept.
                    errors |= dict.fromkeys(requested, error)
                continue
            for topic in getattr(response, "responses", None) or response.topics:
                for result in topic.partitions:
                    partition_error = for_code(result.error_code)()
                    if isinstance(partition_error, AuthorizationError):
                        raise UsageError(f"{TOPIC}: {describe(partition_error)}")
                    if result.error_code:
                        errors[result.partition_index] = partition_error
                    else:
                        responses[result.partition_index] = result
        failed = pending - set(responses)
        pending = {partition for partition in failed if partition not in errors or errors[partition].retriable}
        if not pending or delay is None:
            break
        cluster.net.run(cluster.net.sleep, delay)
        with suppress(UsageError):
            refresh(cluster)
    failed = set(partitions) - set(responses)
    return responses, {partition: errors.get(partition, LeaderNotAvailableError()) for partition in failed}


def describe(error: Any) -> str:
    """Return an error of kafka-python in one line: its name and message, or only the message of a connection error."""
    name = str(getattr(error, "message", None) or type(error).__name__)
    message = " ".join(", ".join(str(part) for part in error.args if part).split())
    if not message:
        return name
    return message if name == "KafkaConnectionError" else f"{name}: {message}"
