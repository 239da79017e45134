"""The options of the commands: how they are declared, and what their texts mean.

A command declares its arguments, as its help shows them, in a text `ARGUMENTS`:

    PATH...              a positional argument; `...`: one or more; `[PATH]`: it may be missing
    --until N            an option; the name of its value decides what it means (TYPES)
    --out! DIR           an option that must be given
    --by group|topic=group    a choice, and the default
    --group GLOB...      an option that can be repeated
    --generations [F=0.01]    an option whose value may be missing, and what it then means
    --json               a flag
    files:               the title of the options below it

The help follows after two spaces or more, and goes on in indented lines. Arguments that are named without a help are
those of SHARED; several of them can stand in one line.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from typing import Any, NoReturn

from kafkagroups.cli.output import describe_nearest, print_error, print_error_line, print_json
from kafkagroups.errors import InvalidRecord, UsageError
from kafkagroups.helpers import parse_whole_number, read_lines
from kafkagroups.loading.load import ENGINES
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.records.releases import DEFAULT_KAFKA, Dialect, dialect, is_newer, parse_release
from kafkagroups.repair.client import MAX_WAIT_SECONDS, MECHANISMS, PROTOCOLS, Security

Options = argparse.Namespace
_ENGINES = "what reads the log: the readable engine (python), the native engine (compiled), or that if installed (auto)"
SHARED = f"""
PATH...  a partition directory, a .log file, or a folder of partition directories; each PATH is answered independently
PATH  a partition directory, a .log file, or a folder of partition directories
--coordinator classic|new  the coordinator whose rules apply (default: new, or classic if --kafka is below 4)
--kafka VERSION  the coordinator's Kafka version (default: {" or ".join(DEFAULT_KAFKA.values())})
--partitions N  the partition count of __consumer_offsets
--out! DIR  a new or empty folder for the files that the command writes
--until N  read whole batches, and only those whose base offset is below N, of one partition
--until-time T  stop before the first batch with a later record; T is in ms since 1970, or in ISO 8601 (default: UTC)
--since-time T  show only what has this timestamp or a later one; T is as in --until-time
--topic TOPIC  only the offsets of this topic
--partition N  only the offsets of this partition of the topic (not of __consumer_offsets)
--engine {"|".join(ENGINES)}=auto  {_ENGINES}
--max-batch-bytes N={MAX_BATCH_BYTES}  the largest size of a decompressed batch; a larger one is like a damaged one
--past-damage  go on at the next readable batch after damaged bytes; a broker would cut the log at the damage
--fail-on-findings  exit with 3 if every PATH is sound and there is a finding, for example in a nightly run
--retention TIME  the broker's offsets.retention.minutes, as minutes or such as 7d, 12h, 30min or 10s: when offsets
    without an expire time expire, and which deleted offsets had expired
--all  print all rows and events (default: a long text is cut, and says what is missing)
--json  print lines of JSON, which is complete
"""
SPARK = f"""
--engine {"|".join(ENGINES)}|spark=auto  {_ENGINES}
--master URL  the Spark master, for --engine spark (default: all cores of this machine)
"""
VARIED = "varied"
"""The width of the batches of `synth`, if it is no number."""
CONNECTION = f"""
--bootstrap! HOST:PORT  one broker, or several separated by commas
--max-wait N={MAX_WAIT_SECONDS}  how many seconds the command waits at most for silent or slow brokers, in total
security options, with the names of Kafka's clients:
--security-protocol {"|".join(PROTOCOLS)}=PLAINTEXT  how to connect
--cafile PEM  the certificate authority of the brokers (default: the authorities of the system)
--certfile PEM  the certificate of the client
--keyfile PEM  the private key of the client (default: in --certfile); $KAFKAGROUPS_KEY_PASSWORD is its password
--any-hostname  accept a certificate whose host name is not the broker's
--sasl-mechanism {"|".join(MECHANISMS)}  the SASL mechanism
--user NAME  the SASL user
--password-file FILE  a file whose first line is the password, or the token of OAUTHBEARER (default:
    $KAFKAGROUPS_PASSWORD)
--kerberos-service NAME=kafka  the Kerberos service name of the brokers, for GSSAPI
"""
_MAX_PASSWORD_LENGTH = 10_000
"""In characters. A file without line breaks, such as /dev/zero, must not fill the memory."""
_UNIT_MS = {"": 60_000, "d": 86_400_000, "h": 3_600_000, "min": 60_000, "m": 60_000, "s": 1_000, "ms": 1}
"""The units of a duration in ms. A number without a unit is a number of minutes."""


# The parser.


class Parser(argparse.ArgumentParser):
    def __init__(self, prog: str, description: str, epilog: str = "") -> None:
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(prog, None, description, epilog, formatter_class=layout, allow_abbrev=False)

    def declare(self, arguments: str, action: type[argparse.Action] | None = None) -> None:
        section: Any = self
        for form, help_text in _split_arguments(arguments):
            if form.endswith(":"):
                section = self.add_argument_group(form[:-1])
                continue
            if not help_text:
                form, help_text = _SHARED[form]
            names, found = _read_form(form, help_text)
            if action is not None:
                found |= {"action": action, "nargs": 0 if "action" in found else None}
            section.add_argument(*names, **found)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        for word in takewhile(lambda word: word != "--", args):
            name = word.partition("=")[0]
            is_known = name in self._option_string_actions or self._subparsers is not None
            # Like argparse, take a word with a space for a value.
            if name.startswith("--") and " " not in word and not is_known:
                self.error(f"unrecognized arguments: {name}{describe_nearest(name, self._option_string_actions)}")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        print_error_line(f"{self.prog}: {message} (see {self.prog} --help)")
        raise SystemExit(2)


def _split_arguments(arguments: str) -> Iterator[tuple[str, str]]:
    for entry in re.split(r"\n+(?=\S)", arguments.strip()):
        form, _, help_text = re.sub(r"\n +", " ", entry).partition("  ")
        if help_text or form.endswith(":"):
            yield form, help_text.strip()
        else:
            yield from ((name, "") for name in form.split())


_SHARED = {re.split("[! ]", form)[0]: (form, help_text) for form, help_text in _split_arguments(SHARED)}


def _read_form(form: str, help_text: str) -> tuple[list[str], dict[str, Any]]:
    name, _, value = form.partition(" ")
    found: dict[str, Any] = {}
    if not name.startswith("-"):
        names = [name.strip("[].").partition(".")[0].lower() + ("s" if name.endswith("...") else "")]
        value = name.strip("[].")
        found["nargs"] = {".": "+", "]": "?"}.get(name[-1])
    else:
        names = [name.removesuffix("!")]
        if name.endswith("!"):
            found["required"] = True
            help_text += " (required)"
        if not value:
            return names, {"action": "store_true", "help": help_text}
        if value.endswith("..."):
            value = value.removesuffix("...")
            found |= {"action": "append", "default": []}
        if value.startswith("["):
            value, _, missing = value[1:-1].partition("=")
            found |= {"nargs": "?", "const": TYPES[value](missing)}
    if match := re.fullmatch(r"([\w|-]+)=(\w+)", value):
        value, found["default"] = match.groups()
        help_text += f" (default: {match[2]})"
    found["help"] = help_text
    if re.fullmatch(r"[\w-]+(\|[\w-]+)+", value):
        return names, found | {"choices": value.split("|")}
    return names, found | {"metavar": value, "type": partial(_parse_value, TYPES.get(value, _parse_text))}


def _parse_value(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


# The texts of values.


def _parse_text(text: str) -> str:
    """Bytes that are no UTF-8 can only be part of a path."""
    return re.sub("[\udc80-\udcff]", "\ufffd", text)


def parse_count(text: str) -> int:
    """Return the number that a text means, such as 1000000, 1M or 200k."""
    factor = {"k": 1000, "M": 1_000_000}.get(text[-1:])
    try:
        return parse_whole_number(text) if factor is None else round(float(text[:-1]) * factor)
    except (UsageError, ValueError, OverflowError):
        raise UsageError(f"expected a number such as 1000, 200k or 1M, found {text!r}") from None


def _parse_time(text: str) -> int:
    """The text is ms since 1970, or ISO 8601 (UTC, if it has no time zone)."""
    if re.fullmatch(r"[-+]?[0-9]+", text):
        return parse_whole_number(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"expected ms since 1970 or ISO 8601, found {text!r}") from None
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def _parse_retention(text: str) -> int:
    match = re.fullmatch(r"([0-9]+) *([a-z]*)", text.strip())
    if match is None or match[2] not in _UNIT_MS:
        units = ", ".join(unit for unit in _UNIT_MS if unit)
        raise UsageError(f"expected minutes, or a number with a unit ({units}), found {text!r}")
    return parse_whole_number(match[1]) * _UNIT_MS[match[2]]


def _parse_partitions(text: str) -> list[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(?P<first>[0-9]{1,6})(?:-(?P<last>[0-9]{1,6}))?", part)
        if not match or int(match["last"] or match["first"]) < int(match["first"]):
            raise UsageError(f"expected numbers and ranges such as 0,3,7-9, found {text!r}")
        numbers.update(range(int(match["first"]), int(match["last"] or match["first"]) + 1))
    return sorted(numbers)


def _parse_width(text: str) -> int | str:
    try:
        return text if text == VARIED else parse_whole_number(text)
    except UsageError:
        raise UsageError(f"expected a number or the word varied, found {text!r}") from None


def _parse_parquet_folder(text: str) -> str:
    file_format, _, folder = text.partition(":")
    if file_format != "parquet" or not folder:
        raise UsageError(f"expected parquet:DIR, found {text!r}")
    if folder != _parse_text(folder):
        raise UsageError(f"expected a path in UTF-8, which pyarrow needs, found {text!r}")
    return folder


TYPES: dict[str, Callable[[str], Any]] = {
    "N": parse_whole_number,
    "COUNT": parse_count,
    "F": float,
    "T": _parse_time,
    "MS": _parse_time,
    "TIME": _parse_retention,
    "LIST": _parse_partitions,
    "WIDTH": _parse_width,
    "parquet:DIR": _parse_parquet_folder,
    # A path may have bytes that are no UTF-8, which Python keeps as half surrogates.
    **dict.fromkeys(["PATH", "DIR", "FILE", "PEM", "PLAN", "CONVERSATION.jsonl"], str),
}


# What several commands do.


def choose_dialect(args: Options) -> Dialect:
    """Return the dialect for --coordinator and --kafka. Without --coordinator, the Kafka version decides which one it
    is.

    A version that was never compared with a broker gives a warning on stderr. Raises UsageError if --master is given
    without --engine spark.
    """
    if getattr(args, "master", None) and args.engine != "spark":
        raise UsageError("--master needs --engine spark")
    rules = dialect(getattr(args, "coordinator", None), getattr(args, "kafka", None))
    _print_rules(rules)
    return rules


def print_newer(kafka: str | None) -> None:
    if kafka is not None and is_newer(kafka):
        _print_rules(dialect(kafka=kafka))


def _print_rules(rules: Dialect) -> None:
    if rules.rules_of is not None:  # It is None if this package was compared with a broker of the version.
        is_other = parse_release(rules.rules_of) != rules.version
        origin = f"are those of {rules.rules_of}" if is_other else "were read in Kafka's source"
        start = f"Kafka {rules.kafka}: this package was not compared with a broker of this version"
        print_error(f"{start}; the rules {origin}")


def convert_lines(convert: Callable[[Any], dict[str, Any]]) -> int:
    """Print one line of JSON for each line of stdin, which is UTF-8 in every locale, and return the exit code.

    A line that cannot be converted becomes `{"error": …}`.
    """
    first_error = ""
    for number, line in enumerate(read_lines(sys.stdin.buffer), 1):
        try:
            result = convert(parse_json(line, "expected JSON in UTF-8"))
        except (UsageError, InvalidRecord) as error:
            result = {"error": "; ".join(list_errors(error))}
            first_error = first_error or f"line {number}: {error}"
        print_json(result)
    if first_error:
        print_error(first_error)
    return int(bool(first_error))


def parse_json(text: bytes | str, expected: str) -> Any:
    """Raises UsageError that begins with what was `expected`."""
    try:
        return json.loads(text.decode() if isinstance(text, bytes) else text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{expected}: {error}") from None


def list_errors(error: UsageError | InvalidRecord) -> list[str]:
    deviations = error.deviations if isinstance(error, InvalidRecord) else ()
    return [str(deviation) for deviation in deviations] or [str(error)]


def find_connection(args: Options) -> dict[str, Any]:
    """Raises UsageError if the password file is unreadable."""
    login = (args.security_protocol, args.sasl_mechanism, args.user, _read_password(args.password_file))
    key_password = os.environ.get("KAFKAGROUPS_KEY_PASSWORD")
    files = (args.cafile, args.certfile, args.keyfile, key_password)
    security = Security(*login, args.kerberos_service, *files, check_hostname=not args.any_hostname)
    return {"bootstrap": args.bootstrap, "security": security, "max_wait": args.max_wait, "on_wait": print_error}


def _read_password(file: str | None) -> str | None:
    """Return the SASL password: the first line of the file, or KAFKAGROUPS_PASSWORD if there is no file."""
    if file is None:
        return os.environ.get("KAFKAGROUPS_PASSWORD")
    try:
        with open(file) as lines:
            first_line = lines.readline(_MAX_PASSWORD_LENGTH + 1)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{file}: {getattr(error, 'strerror', error)}") from None
    if len(first_line) > _MAX_PASSWORD_LENGTH:
        raise UsageError(f"{file}: the first line has more than {_MAX_PASSWORD_LENGTH} characters")
    return first_line.removesuffix("\n")
