"""The options of a connection to a cluster, which `pull` and `rescue apply` share: brokers, waits, TLS and SASL."""

from __future__ import annotations

import argparse
import os

from kafkagroups.cli import options
from kafkagroups.errors import UsageError
from kafkagroups.repair.connection import MAX_WAIT_SECONDS, MECHANISMS, PROTOCOLS, Security

_MAX_PASSWORD_LENGTH = 10_000
"""In characters. A file without line breaks, such as /dev/zero, must not fill the memory."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --bootstrap, --max-wait and the security options."""
    parser.add_argument(
        "--bootstrap", required=True, metavar="HOST:PORT", help="one broker, or several separated by commas"
    )
    parser.add_argument(
        "--max-wait",
        type=options.parse_number,
        metavar="SECONDS",
        default=MAX_WAIT_SECONDS,
        help="the limit of the total time that the command waits for silent or slow brokers "
        f"(default: {MAX_WAIT_SECONDS})",
    )
    security = parser.add_argument_group("security options, with the names of Kafka's clients")
    security.add_argument(
        "--security-protocol", choices=PROTOCOLS, default="PLAINTEXT", help="how to connect (default: PLAINTEXT)"
    )
    security.add_argument(
        "--cafile",
        metavar="PEM",
        help="the certificate authority of the brokers (default: the authorities of the system)",
    )
    security.add_argument("--certfile", metavar="PEM", help="the certificate of the client")
    security.add_argument(
        "--keyfile", metavar="PEM", help="the private key of the client (default: the key is in the file of --certfile)"
    )
    security.add_argument(
        "--any-hostname", action="store_true", help="accept a certificate whose host name is not the broker's"
    )
    security.add_argument("--sasl-mechanism", choices=MECHANISMS, help="the SASL mechanism")
    security.add_argument("--user", metavar="NAME", help="the SASL user")
    security.add_argument("--password-file", metavar="FILE", help="a file whose first line is the password")
    security.add_argument(
        "--kerberos-service",
        metavar="NAME",
        default="kafka",
        help="the Kerberos service name of the brokers, for GSSAPI (default: kafka)",
    )


def build_security(args: argparse.Namespace) -> Security:
    """Return the security settings of the options. Raises UsageError if the password file cannot be read."""
    return Security(
        protocol=args.security_protocol,
        mechanism=args.sasl_mechanism,
        user=args.user,
        password=_read_password(args.password_file),
        service=args.kerberos_service,
        cafile=args.cafile,
        certfile=args.certfile,
        keyfile=args.keyfile,
        key_password=os.environ.get("KAFKAGROUPS_KEY_PASSWORD"),
        check_hostname=not args.any_hostname,
    )


def _read_password(file: str | None) -> str | None:
    """Return the SASL password: the first line of the file, or KAFKAGROUPS_PASSWORD if there is no file."""
    if file is None:
        return os.environ.get("KAFKAGROUPS_PASSWORD")
    try:
        with open(file) as lines:
            first_line = lines.readline(_MAX_PASSWORD_LENGTH + 1)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{file}: {reason}") from None
    if len(first_line) > _MAX_PASSWORD_LENGTH:
        raise UsageError(f"{file}: the first line has more than {_MAX_PASSWORD_LENGTH} characters")
    return first_line.removesuffix("\n")
