"""The connection to a running cluster: finds the leaders of partitions and sends them requests.

It uses kafka-python (extra `live`), below that client's consumer API. Every request goes to the leader of its
partitions. If the leader moves or its broker is down, the request is sent again after a wait. An error that a user can
fix is a UsageError of one line: no client, no broker, no topic, no permission.
Source: MetadataRequest.json (4.3.1); kafka.net.manager, kafka.net.connection (kafka-python 3.0).

Simpler than a client: one request at a time, and no brokers before 0.11, because they create a topic that a client
asks about.
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
LARGEST_ANSWER = 512 * 1024 * 1024
"""The largest response that is accepted. A broker sends a batch whole, whatever its size."""
WAITS = (0.1, 0.5, 1.0, 2.0, 4.0)
"""Seconds before a request is sent again, while a partition's leader moves or its broker is down."""


@dataclass(frozen=True, slots=True)
class Security:
    """How to connect. `protocol` and `mechanism` have Kafka's names.

    `cafile`, `certfile` and `keyfile` are PEM files. `user` and `password` are for SASL, `service` is for Kerberos
    (GSSAPI).
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
    """The client, the bootstrap brokers, and the leader's node id of each partition (-1: no leader)."""

    net: Any
    manager: Any
    bootstrap: list[Any]
    leaders: dict[int, int] = field(default_factory=dict)


@contextmanager
def connect(bootstrap: str, security: Security) -> Iterator[Cluster]:
    """Connect to a cluster. UsageError: kafka-python is not installed, or the settings are wrong."""
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
    """Return the client's settings. UsageError if it could not use them."""
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
        "receive_message_max_bytes": LARGEST_ANSWER,
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
    """Send a request to a node and return its response.

    KafkaError if there is no response: NodeNotReadyError shortly after another error, else KafkaConnectionError.
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
    except Exception as error:  # The client does not catch all errors, such as a missing library.
        broker = cluster.manager.cluster.broker_metadata(node)
        where = f"{broker.host}:{broker.port}" if broker else f"broker {node}"
        reason = _explain_drop(cluster, connection) if _is_dropped(connection) else describe(error)
        raise KafkaConnectionError(f"{where}: {reason}") from None
    if response.throttle_time_ms:
        cluster.net.run(cluster.net.sleep, response.throttle_time_ms / 1000)
    return response


def _is_dropped(connection: Any) -> bool:
    """Return whether the broker closed the connection while it was made.

    This is how a broker refuses a client. The client often loses the error message that the broker sent before.
    """
    failure = connection.init_future.exception if connection is not None else None
    return failure is not None and "disconnected" in str(failure)


def _explain_drop(cluster: Cluster, connection: Any) -> str:
    if connection.broker_version_data is not None and connection.sasl_enabled:
        return "the broker closed the connection at the login: check the SASL mechanism, the user and the password"
    protocol = cluster.manager.config["security_protocol"]
    return f"the broker closed the connection: check that this port uses {protocol}"


def refresh(cluster: Cluster) -> None:
    """Update the brokers and leaders from the first broker that responds.

    UsageError: no broker responds, there is no topic, or the user has no permission.
    """
    from kafka.errors import KafkaError, for_code
    from kafka.protocol.metadata import MetadataRequest

    topic = MetadataRequest.MetadataRequestTopic(name=TOPIC)
    failures = []
    for broker in [*cluster.manager.cluster.brokers(), *cluster.bootstrap]:
        # A request without allow_auto_topic_creation (version 4) would make the broker create the topic.
        request = MetadataRequest(topics=[topic], allow_auto_topic_creation=False, min_version=4, max_version=9)
        try:
            response = _send(cluster, broker.node_id, request)
        except KafkaError as error:
            failures.append(describe(error))
            continue
        cluster.manager.cluster.update_metadata(response)
        (metadata,) = response.topics
        if metadata.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            raise UsageError(f"the cluster has no topic {TOPIC}: no group has ever committed there")
        if metadata.error_code:
            raise UsageError(f"{TOPIC}: {describe(for_code(metadata.error_code)())}")
        cluster.leaders = {partition.partition_index: partition.leader_id for partition in metadata.partitions}
        return
    raise UsageError(f"no broker responds: {'; '.join(failures)}")


def ask_leaders(
    cluster: Cluster, numbers: list[int], build_request: Callable[[list[int]], Any]
) -> tuple[dict[int, Any], dict[int, Any]]:
    """Send a request about these partitions to their leaders.

    `build_request` builds the request to one leader from the partitions that it leads. If an error may be temporary,
    the request is sent again. Returns the responses and the errors by partition.

    UsageError: the user has no permission.
    """
    from kafka.errors import AuthorizationError, KafkaError, LeaderNotAvailableError, NodeNotReadyError, for_code

    responses: dict[int, Any] = {}
    errors: dict[int, Any] = {}
    pending = set(numbers)
    for wait in (*WAITS, None):
        by_leader: dict[int, list[int]] = {}
        for number in sorted(pending):
            by_leader.setdefault(cluster.leaders.get(number, -1), []).append(number)
        for leader, own in by_leader.items():
            try:
                if leader < 0:
                    raise LeaderNotAvailableError()
                response = _send(cluster, leader, build_request(own))
            except KafkaError as error:
                if not isinstance(error, NodeNotReadyError):  # NodeNotReadyError hides the error that came before it.
                    errors |= dict.fromkeys(own, error)
                continue
            for topic in getattr(response, "responses", None) or response.topics:
                for partition in topic.partitions:
                    refusal = for_code(partition.error_code)()
                    if isinstance(refusal, AuthorizationError):
                        raise UsageError(f"{TOPIC}: {describe(refusal)}")
                    if partition.error_code:
                        errors[partition.partition_index] = refusal
                    else:
                        responses[partition.partition_index] = partition
        failed = pending - set(responses)
        pending = {number for number in failed if number not in errors or errors[number].retriable}
        if not pending or wait is None:
            break
        cluster.net.run(cluster.net.sleep, wait)
        with suppress(UsageError):
            refresh(cluster)
    failed = set(numbers) - set(responses)
    return responses, {number: errors.get(number, LeaderNotAvailableError()) for number in failed}


def describe(error: Any) -> str:
    """Return a client's error in one line: Kafka's name and the message. A connection error has only the message."""
    name = str(getattr(error, "message", None) or type(error).__name__)
    message = " ".join(", ".join(str(part) for part in error.args if part).split())
    if not message:
        return name
    return message if name == "KafkaConnectionError" else f"{name}: {message}"
