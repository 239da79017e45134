"""The command `pull`: copy the topic __consumer_offsets of a running cluster into segment files."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from dataclasses import asdict
from functools import partial

from kafkagroups.cli import options
from kafkagroups.cli.output import print_line
from kafkagroups.cli.progress import progress_bar
from kafkagroups.cli.tables import print_table
from kafkagroups.errors import UsageError
from kafkagroups.live.pull import PullResult, pull
from kafkagroups.live.security import MECHANISMS, PROTOCOLS, Security
from kafkagroups.live.waits import MAX_WAIT_SECONDS

NAME = "pull"
_MAX_PASSWORD_LENGTH = 10_000
"""In characters. A file without line breaks, such as /dev/zero, must not fill the memory."""
HELP = "copy __consumer_offsets of a running cluster into segment files, byte for byte, with control batches"
EXAMPLES = """\
examples:
  kafkagroups pull --bootstrap broker-1:9092 --out pulled
  kafkagroups load pulled
  kafkagroups pull --bootstrap broker-1:9092,broker-2:9092 --partitions 0,3,7-9 --out pulled --json
  kafkagroups pull --bootstrap broker-1:9093 --out pulled --security-protocol SASL_SSL --cafile ca.pem \\
      --sasl-mechanism SCRAM-SHA-512 --user auditor --password-file secret

The user needs the rights to describe and to read the topic __consumer_offsets. Passwords are read from files or from
the environment: KAFKAGROUPS_PASSWORD for SASL, KAFKAGROUPS_KEY_PASSWORD for the key file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bootstrap", required=True, metavar="HOST:PORT", help="one broker, or several separated by commas"
    )
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="a new or empty folder for the partition directories"
    )
    parser.add_argument(
        "--partitions", type=parse_numbers, metavar="LIST", help="only these partitions, such as 0,3,7-9 (default: all)"
    )
    parser.add_argument(
        "--max-wait",
        type=options.parse_number,
        metavar="SECONDS",
        default=MAX_WAIT_SECONDS,
        help="the limit of the total time that the command waits for silent or slow brokers "
        f"(default: {MAX_WAIT_SECONDS})",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
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


def run(args: argparse.Namespace) -> int:
    security = Security(
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
    with progress_bar("offsets", min_total=0) as report:
        progress = partial(report, "pulling") if report else None
        pulled = pull(
            args.bootstrap,
            args.out,
            partitions=args.partitions,
            security=security,
            progress=progress,
            max_wait=args.max_wait,
            on_wait=options.print_error,
        )
    if args.json:
        print(json.dumps({"partitions": {str(number): asdict(part) for number, part in pulled.partitions.items()}}))
    else:
        _print_text(args.out, pulled)
    sys.stdout.flush()
    for line in pulled.problems:
        options.print_error(line)
    return int(bool(pulled.problems))


def parse_numbers(text: str) -> list[int]:
    """Return the numbers in a text such as 0,3,7-9, in ascending order."""
    error = argparse.ArgumentTypeError(f"expected numbers and ranges such as 0,3,7-9, found {text!r}")
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(?P<first>[0-9]{1,6})(?:-(?P<last>[0-9]{1,6}))?", part)
        if not match:
            raise error
        first = int(match["first"])
        last = int(match["last"] or first)
        if last < first:
            raise error
        numbers.update(range(first, last + 1))
    return sorted(numbers)


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


def _print_text(out: str, pulled: PullResult) -> None:
    partitions = pulled.partitions
    rows = [
        (number, partition.first, partition.next, partition.bytes)
        for number, partition in partitions.items()
        if partition.bytes
    ]
    print_table(("partition", "first", "next", "bytes"), rows)
    total_bytes = sum(partition.bytes for partition in partitions.values())
    empty_count = len(partitions) - len(rows)
    print_line(f"{total_bytes} bytes of {len(partitions)} partitions, {empty_count} of them empty, in {out}")
