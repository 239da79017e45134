"""The security settings of connections to a cluster, and kafka-python's settings that follow from them."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from typing import Any

from kafkagroups.errors import UsageError

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MAX_RESPONSE_BYTES = 512 * 1024 * 1024
"""The largest response that is accepted. This limit must be above the size of every batch, because a broker always
sends the first batch as a whole."""


@dataclass(frozen=True, slots=True)
class Security:
    """The security settings of a connection.

    Attributes
    ----------
    protocol, mechanism
        Kafka's settings security.protocol and sasl.mechanism. `mechanism` is None without SASL.
    user, password
        The user and the password for SASL.
    service
        The Kerberos service name of the brokers, for the mechanism GSSAPI.
    cafile
        The path of a PEM file with the brokers' certificate authorities. None means the authorities of the system.
    certfile, keyfile
        The paths of PEM files with the client's certificate and private key. If `keyfile` is None, the key is in
        `certfile`. If both are None, the client has no certificate.
    key_password
        The password of the client's private key. None means that the key is not encrypted.
    check_hostname
        Whether the host name in a broker's certificate must be the name of the broker.
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


def build_config(bootstrap: str, security: Security) -> dict[str, Any]:
    """Return kafka-python's settings. Raises UsageError if a setting is wrong or missing."""
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
    needs_password = uses_sasl and security.mechanism != "GSSAPI"
    if needs_password and (security.user is None or security.password is None):
        raise UsageError(f"the SASL mechanism {security.mechanism} needs a user and a password")
    has_certificates = security.cafile or security.certfile or security.keyfile
    if has_certificates and not uses_tls:
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
    """Return a TLS context with the certificates. Raises UsageError if a file cannot be read."""
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
