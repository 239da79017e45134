"""`kafkagroups pull`: the raw topic of a running cluster as segments."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

from kafkagroups.cli import options
from kafkagroups.cli.progress import progress_bar
from kafkagroups.cli.tables import table
from kafkagroups.errors import UsageError
from kafkagroups.live.client import MECHANISMS, PROTOCOLS, Security
from kafkagroups.live.pull import Pulled, pull

NAME = "pull"
HELP = "bring the topic of a running cluster as segments, byte for byte, control batches included"
EXAMPLES = """\
examples:
  kafkagroups pull --bootstrap broker-1:9092 --out pulled
  kafkagroups load pulled
  kafkagroups pull --bootstrap broker-1:9092,broker-2:9092 --partitions 0,3,7-9 --out pulled --json
  kafkagroups pull --bootstrap broker-1:9093 --out pulled --security-protocol SASL_SSL --cafile ca.pem \\
      --sasl-mechanism SCRAM-SHA-512 --user auditor --password-file secret

The user needs the right to describe and to read the topic __consumer_offsets. Passwords are read from files or from
the environment: KAFKAGROUPS_PASSWORD is SASL's, KAFKAGROUPS_KEY_PASSWORD the key file's."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT", help="a broker, or several with commas")
    parser.add_argument("--out", required=True, metavar="DIR", help="a new or empty folder for the partitions' folders")
    parser.add_argument("--partitions", type=numbers, metavar="LIST", help="only these, such as 0,3,7-9 (all)")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    secure = parser.add_argument_group("security, in the words of Kafka's clients")
    secure.add_argument(
        "--security-protocol", choices=PROTOCOLS, default="PLAINTEXT", help="how to connect (PLAINTEXT)"
    )
    secure.add_argument("--cafile", metavar="PEM", help="who signed the brokers' certificates (the system's)")
    secure.add_argument("--certfile", metavar="PEM", help="the client's own certificate")
    secure.add_argument("--keyfile", metavar="PEM", help="its key, unless it is in the same file")
    secure.add_argument("--any-hostname", action="store_true", help="take certificates with another host's name")
    secure.add_argument("--sasl-mechanism", choices=MECHANISMS, help="how to log in")
    secure.add_argument("--user", metavar="NAME", help="who logs in")
    secure.add_argument("--password-file", metavar="FILE", help="a file whose first line is the password")
    secure.add_argument(
        "--kerberos-service", metavar="NAME", default="kafka", help="the brokers' service, GSSAPI (kafka)"
    )


def run(args: argparse.Namespace) -> int:
    security = Security(
        protocol=args.security_protocol,
        mechanism=args.sasl_mechanism,
        user=args.user,
        password=_password(args.password_file),
        service=args.kerberos_service,
        cafile=args.cafile,
        certfile=args.certfile,
        keyfile=args.keyfile,
        key_password=os.environ.get("KAFKAGROUPS_KEY_PASSWORD"),
        check_hostname=not args.any_hostname,
    )
    with progress_bar("offsets", least=0) as report:
        progress = partial(report, "pulling") if report else None
        pulled = pull(args.bootstrap, args.out, partitions=args.partitions, security=security, progress=progress)
    if args.json:
        print(json.dumps({"partitions": {str(number): asdict(part) for number, part in pulled.partitions.items()}}))
    else:
        _print(args.out, pulled)
    sys.stdout.flush()
    for line in pulled.problems:
        options.complain(line)
    return int(bool(pulled.problems))


def numbers(text: str) -> list[int]:
    """The numbers of a list such as 0,3,7-9."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise argparse.ArgumentTypeError(f"numbers and ranges such as 0,3,7-9 were expected, not {text!r}")
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(found)


def _password(file: str | None) -> str | None:
    """SASL's password, from the file or from the environment."""
    if file is None:
        return os.environ.get("KAFKAGROUPS_PASSWORD")
    try:
        lines = Path(file).read_text().splitlines()
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    return lines[0] if lines else ""


def _print(out: str, pulled: Pulled) -> None:
    parts = pulled.partitions
    full = [(number, part.first, part.next, part.bytes) for number, part in parts.items() if part.bytes]
    table(("partition", "first", "next", "bytes"), full)
    size = sum(part.bytes for part in parts.values())
    print(f"{size} bytes of {len(parts)} partitions, {len(parts) - len(full)} of them empty, in {out}")
