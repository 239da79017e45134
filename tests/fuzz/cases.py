"""The inputs of the fuzzer of commands: each case is a folder of files, and commands that read them.

The number of a case and the seed of the run decide everything in it.
"""

from __future__ import annotations

import functools
import json
import os
import random
import struct
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import kafkagroups as kg
from tests.captured import captured, rows
from tests.engine.random_logs import random_log
from tests.fuzz.odd_broker import OddBroker
from tests.fuzz.odd_logs import change_key_and_value, change_log, split_batches
from tests.fuzz.odd_values import change_bytes, change_json, odd_number, odd_text
from tests.fuzz.worker import Command
from tests.releases.sequences import encode_log, random_sequence

SEGMENT = "00000000000000000000.log"
MAX_BYTES = 5_000_000
RULES = (
    *(("new", version) for version in ("4.3.1", "4.4.0", "4.2.0", "4.1.2", "4.0.2")),
    *(("classic", version) for version in ("3.9.2", "2.8.2", "2.3.1", "1.0.1", "0.9.0.1", "0.8.2")),
)
"""The coordinators and Kafka versions whose rules are tried."""


@dataclass
class Case:
    """Commands, and pairs of them (by index) that must have the same exit code and output.

    `folder` contains the files. `broker` is the broker that the commands pull from, or None.
    """

    folder: Path
    commands: list[Command] = field(default_factory=list)
    equal: list[tuple[int, int]] = field(default_factory=list)
    broker: OddBroker | None = None

    def close(self) -> None:
        """Stop the broker."""
        if self.broker is not None:
            self.broker.close()

    def add_both(self, *arguments: object) -> None:
        """Add a command with each engine. The results are equal."""
        self.equal.append((self.add(*arguments, "--engine", "python"), self.add(*arguments, "--engine", "compiled")))

    def add(self, *arguments: object, stdin: str | None = None) -> int:
        """Add a command and return its index. The arguments become what `main` makes of a shell's bytes."""
        texts = [str(argument).encode("utf-8", "surrogatepass").decode("utf-8", "replace") for argument in arguments]
        self.commands.append(Command(texts, stdin))
        return len(self.commands) - 1


def make_case(seed: int, number: int, folder: Path, kinds: Collection[str] = ()) -> Case:
    """Write the files of a case into an empty folder, and return the case. `kinds` are the allowed kinds; (): all."""
    rnd = random.Random(f"{seed}-{number}")
    chosen = {name: kind for name, kind in KINDS.items() if not kinds or name in kinds}
    (kind,) = rnd.choices(list(chosen.values()), [WEIGHTS[name] for name in chosen])
    case = Case(folder)
    kind(rnd, case)
    return case


@functools.cache
def small_logs() -> list[bytes]:
    """Return the captured segments of less than 100 kB."""
    logs = []
    for family in ("dumplog", "crafted", "runs", "releases", "v440", "cleaner"):
        paths = sorted(captured(family).rglob("*.log"))
        logs += [path.read_bytes() for path in paths if 0 < path.stat().st_size < 100_000]
    return logs


def seed_log(rnd: random.Random) -> bytes:
    """Return a segment that is mostly right: captured, or random with offsets, or random with all record types."""
    chance = rnd.random()
    if chance < 0.4:
        return rnd.choice(small_logs())
    if chance < 0.7:
        return random_log(rnd.getrandbits(32))
    return encode_log(random_sequence(rnd.getrandbits(32)))


def write_log(rnd: random.Random, folder: Path) -> Path:
    """Write a changed log as one, two or three segments of a partition directory, and return the directory."""
    data = change_log(rnd, seed_log(rnd))[:MAX_BYTES]
    log = folder / f"__consumer_offsets-{rnd.choice((0, 1, 12, 2**31 - 1))}"
    log.mkdir()
    if rnd.random() < 0.8:
        (log / SEGMENT).write_bytes(data)
        return log
    batches, tail = split_batches(data)
    cut = rnd.randrange(len(batches) + 1)
    for part in (batches[:cut], batches[cut:]):
        content = b"".join(part)
        base = int.from_bytes(content[:8], "big") if content else rnd.randrange(9)
        name = rnd.choice((f"{base:020}.log", f"{base:020}.log", f"{rnd.randrange(99)}.log", f"{10**20 - 1}.log"))
        (log / name).write_bytes(content + (tail if part == batches[cut:] else b""))
    return log


def log_case(rnd: random.Random, case: Case) -> None:
    """A log, loaded by both engines and read by all other commands."""
    log = write_log(rnd, case.folder)
    for coordinator, kafka in rnd.sample(RULES, 2):
        rules = ("--coordinator", coordinator, "--kafka", kafka)
        case.add_both("load", log, "--json", *rules)
        for command in rnd.sample(READING_COMMANDS, 3):
            command(rnd, case, log, rules)


def _show(rnd: random.Random, case: Case, log: Path, rules: tuple[str, ...]) -> None:
    case.add("load", log, *rules, *rnd.choice(((), ("--partitions", rnd.choice((1, 50))))))


def _load_until(rnd: random.Random, case: Case, log: Path, rules: tuple[str, ...]) -> None:
    limit = rnd.choice((("--until", odd_number(rnd) % 2**70), ("--until-time", rnd.choice((0, 1500, 2**63)))))
    case.add_both("load", log, "--json", *rules, *limit)


def _write_parquet(rnd: random.Random, case: Case, log: Path, rules: tuple[str, ...]) -> None:
    case.add("load", log, *rules, "--to", f"parquet:tables-{len(case.commands)}")


def _take_snapshot(rnd: random.Random, case: Case, log: Path, rules: tuple[str, ...]) -> None:
    """Load twice with one snapshot. The results are equal."""
    folder = f"snapshot-{len(case.commands)}"
    first = case.add("load", log, "--json", *rules, "--snapshot", folder)
    second = case.add("load", log, "--json", *rules, "--snapshot", folder)
    case.equal.append((first, second))


def _dump(rnd: random.Random, case: Case, log: Path, rules: tuple[str, ...]) -> None:
    group = odd_text(rnd).replace("\0", "")
    filters = ((f"--group={group}",), ("--type", rnd.choice(("1", "OffsetCommit", "24"))), ("--from", "3"), ())
    filters += (("--topic", "t"), ("--partition", "0"), ("--tombstones",), ("--since-time", "5"))
    case.add("dump", log, *rules[2:], *rnd.choice((("--json",), ())), *rnd.choice(filters))


def _dump_as_tool(rnd: random.Random, case: Case, log: Path, rules: tuple[str, ...]) -> None:
    case.add("dump", log, "--format", rnd.choice(("dump-log", "formatter")), *rules[2:])


def _explain(rnd: random.Random, case: Case, log: Path, rules: tuple[str, ...]) -> None:
    group = rnd.choice((*_group_names(log), "g", odd_text(rnd)))
    topic = rnd.choice(("t", odd_text(rnd))).replace("\0", "")
    key = rnd.choice(((), (), (f"--topic={topic}", "--partition", rnd.choice((0, 2**31)))))
    case.add_both("explain", log, *rules, f"--group={group}", *key, *rnd.choice((("--json",), ())))


def _timeline(rnd: random.Random, case: Case, log: Path, rules: tuple[str, ...]) -> None:
    group = rnd.choice((*_group_names(log), "g", odd_text(rnd)))
    case.add_both("timeline", log, *rules, f"--group={group}", *rnd.choice((("--json",), ("--all",), ())))


def _stats(rnd: random.Random, case: Case, log: Path, rules: tuple[str, ...]) -> None:
    by = rnd.choice(("group", "topic", "type", "partition"))
    case.add_both("stats", log, *rules, "--by", by, *rnd.choice((("--json",), ("--top", "3"), ())))
    case.add("check", log, *rules, *rnd.choice((("--json",), (), ("--to", "4.4.0"), ("--to", "3.9.2", "--json"))))


def _diff(rnd: random.Random, case: Case, log: Path, rules: tuple[str, ...]) -> None:
    ways = (
        ("--coordinators",),
        ("--since", rnd.choice((0, 5, odd_number(rnd) % 2**70)), *rules),
        ("--since-time", rnd.choice((0, 1500, 1_700_000_000_000)), *rules),
    )
    case.add("diff", log, *rnd.choice(ways), *rnd.choice((("--json",), ())))


def _compact(rnd: random.Random, case: Case, log: Path, rules: tuple[str, ...]) -> None:
    options = (
        (),
        ("--delete-retention-ms", 0),
        ("--now-ms", odd_number(rnd) % 2**63),
        ("--segment-bytes", rnd.choice((1, 1000, 2**40))),
        ("--first-dirty", odd_number(rnd) % 2**63),
        ("--map-entries", rnd.choice((1, 2, 10**9))),
    )
    arguments = ("compact", log, *rnd.choice(options))
    out = f"compacted-{len(case.commands)}"
    case.add(*arguments, "--out", out, *rnd.choice((("--json",), ())))
    case.add("load", out, "--json")


def _plan_rescue(rnd: random.Random, case: Case, log: Path, rules: tuple[str, ...]) -> None:
    arguments = ("rescue", "plan", log, *rules, *rnd.choice(((), ("--partitions", 50), ("--past-damage",))))
    case.add_both(*arguments, "--json")
    case.add(*arguments, "--out", f"plan-{len(case.commands)}.json")


READING_COMMANDS = [
    _show,
    _load_until,
    _write_parquet,
    _take_snapshot,
    _dump,
    _dump,
    _dump_as_tool,
    _explain,
    _timeline,
    _stats,
    _diff,
    _compact,
    _plan_rescue,
]


def _group_names(log: Path) -> list[str]:
    """Return the groups in the records that can be read. A special file is not opened."""
    names: list[str] = []
    if not all(path.is_file() for path in log.glob("*.log")):
        return names
    with suppress(Exception):  # The log is damaged. Any name will do.
        for batch in kg.open_log(log):
            for record in () if batch.is_control else batch.records:
                with suppress(kg.InvalidRecord):
                    names.append(str(getattr(kg.decode(record.key, record.value).key, "group", "")))
    return sorted(set(names))


def snapshot_case(rnd: random.Random, case: Case) -> None:
    """A snapshot of the beginning of a log, with changed files, that goes on with the rest of the log."""
    from kafkagroups.loading.snapshots import take_snapshot

    data = seed_log(rnd)
    batches, _ = split_batches(data)
    log = case.folder / "__consumer_offsets-0"
    log.mkdir()
    (log / SEGMENT).write_bytes(b"".join(batches[: rnd.randrange(len(batches) + 1)]))
    coordinator, kafka = rnd.choice(RULES[:7])
    snapshot = case.folder / "snapshot"
    with suppress(kg.InvalidLog, kg.UsageError):
        take_snapshot(log, coordinator, kafka).save(snapshot)
    (log / SEGMENT).write_bytes(data)
    files = sorted(snapshot.iterdir()) if snapshot.is_dir() else []
    if files:
        change_snapshot(rnd, snapshot, rnd.choice(files))
    rules = ("--coordinator", coordinator, "--kafka", kafka, "--snapshot", "snapshot")
    case.add("load", log, "--json", *rules)
    case.add("load", log, *rules)


def change_snapshot(rnd: random.Random, folder: Path, file: Path) -> None:
    """Change one file of a snapshot. Mostly all sizes and checksums fit the change."""
    content = file.read_bytes()
    is_signed = rnd.random() >= 0.1
    if file.suffix == ".log" or not is_signed:
        file.write_bytes(change_bytes(rnd, content, rnd.choice((1, 3))))
    else:
        file.write_text(json.dumps(change_json(rnd, json.loads(content), rnd.choice((1, 1, 3)))))
    if is_signed:
        with suppress(ValueError, KeyError, TypeError, AttributeError, OSError):
            sign_snapshot(folder)


def sign_snapshot(folder: Path) -> None:
    """Write the sizes and checksums of the changed files into `snapshot.json`."""
    from crc32c import crc32c

    from tests.snapshots import forged

    content = forged.read_manifest(folder)
    for saved in content["partitions"]:
        data = (folder / saved["file"]).read_bytes()
        saved.update(size=len(data), checksum=crc32c(data))
    forged.write_manifest(folder, content)


@functools.cache
def _records() -> list[dict]:
    """Return captured records as lines for `decode` and `encode`."""
    paths = sorted((captured("vectors") / "vectors").glob("*.jsonl"))
    found = [row for path in paths for row in rows("vectors", f"vectors/{path.name}")]
    return [{name: row[name] for name in ("key_hex", "value_hex")} for row in found]


def lines_case(rnd: random.Random, case: Case) -> None:
    """Lines for `decode --jsonl` and `encode --jsonl`, and one record for `decode` on the command line."""
    decoded = []
    encoded = []
    for row in rnd.sample(_records(), 12):
        key = bytes.fromhex(row["key_hex"])
        value = None if row["value_hex"] is None else bytes.fromhex(row["value_hex"])
        with suppress(kg.InvalidRecord):
            encoded.append(json.dumps(change_json(rnd, kg.to_json(kg.decode(key, value)), rnd.choice((0, 1, 2)))))
        changed = [None if part is None else part.hex() for part in change_key_and_value(rnd, key, value)]
        decoded.append(json.dumps(dict(zip(("key_hex", "value_hex"), changed, strict=True))))
    decoded.append(json.dumps(change_json(rnd, json.loads(decoded[0]))))
    for name, lines in (("decode", decoded), ("encode", encoded)):
        data = "\n".join(lines).encode("utf-8", "surrogatepass")
        if rnd.random() < 0.2:
            data = change_bytes(rnd, data, 3)
        (case.folder / name).write_bytes(data)
        coordinator, kafka = rnd.choice(RULES)
        rules = ("--coordinator", coordinator) if name == "decode" else ()
        strict = ("--strict",) if name == "decode" and rnd.random() < 0.5 else ()
        case.add(name, "--jsonl", *rules, "--kafka", kafka, *strict, stdin=str(case.folder / name))
    record = [part for part in json.loads(decoded[0]).values() if isinstance(part, str) and len(part) < 50_000]
    case.add("decode", *record, *rnd.choice(((), ("--json",), ("--strict",))))


@functools.cache
def _conversations() -> list[Path]:
    paths = (captured("conversations") / "conversations").glob("*/conversation.jsonl")
    return sorted(path for path in paths if path.stat().st_size < 200_000)


def conversation_case(rnd: random.Random, case: Case) -> None:
    """The beginning of a recorded conversation, in which some lines are changed, repeated or missing."""
    lines = rnd.choice(_conversations()).read_bytes().splitlines()
    first = rnd.randrange(1, len(lines))
    lines = [lines[0], *lines[1 : rnd.choice((30, 100))], *lines[first : first + 20]]
    for _ in range(rnd.choice((1, 2, 5))):
        index = rnd.choice((0, *range(len(lines))))
        match rnd.randrange(8):
            case 0:
                del lines[index]
            case 1:
                lines.insert(index, rnd.choice(lines or [b""]))
            case 2:
                lines[index : index + 1] = [change_bytes(rnd, line) for line in lines[index : index + 1]]
            case _ if index < len(lines):
                with suppress(ValueError):
                    lines[index] = json.dumps(change_json(rnd, json.loads(lines[index]), rnd.choice((1, 2)))).encode()
    (case.folder / "conversation.jsonl").write_bytes(b"\n".join(lines))
    version = rnd.choice(((), ("--kafka", "1.0.1"), ("--kafka", "2.8.2"), ("--kafka", "3.9.2")))
    case.add("replay", "conversation.jsonl", "--out", "out", *version)
    case.add("load", "out", "--json", "--coordinator", "classic")


def special_case(rnd: random.Random, case: Case) -> None:
    """Files that are no plain files, or not readable, or sparse, or empty, or named in an odd way."""
    log = case.folder / rnd.choice(("__consumer_offsets-0", "__consumer_offsets--1", "__consumer_offsets-x", "log"))
    log.mkdir()
    file = log / rnd.choice((SEGMENT, "x.log", ".log", f"{'9' * 30}.log", "-1.log", "a\nb\x1b[2J.log", "٣.log"))
    match rnd.randrange(9):
        case 0:
            os.mkfifo(file)
        case 1:
            file.symlink_to(rnd.choice(("/dev/zero", "/dev/null", "/dev/stdin", "/proc/self/mem", "/nowhere")))
        case 2:
            file.mkdir()
        case 3:
            file.symlink_to(file)
        case 4:
            with open(file, "wb") as sparse:
                sparse.truncate(rnd.choice((0, 10, 1 << 20, 6 << 30)))
        case 5:
            log.rmdir()
            log.write_bytes(seed_log(rnd))
        case 6:
            log.rmdir()
            log.symlink_to(".")
        case 7:
            file.write_bytes(change_bytes(rnd, b""))
        case _:
            file.write_bytes(seed_log(rnd))
    rules = ("--coordinator", "new", "--kafka", "4.3.1")
    path = rnd.choice((log, file, case.folder))
    for command in rnd.sample(READING_COMMANDS, 5):
        command(rnd, case, path, rules)
    case.add("replay", file, "--out", "played")


def broker_case(rnd: random.Random, case: Case) -> None:
    """A topic, pulled from a broker whose answers are partly wrong, and then loaded by both engines."""
    log = seed_log(rnd) if rnd.random() < 0.5 else change_log(rnd, seed_log(rnd))
    batches, _ = split_batches(log)
    end_offset = struct.unpack_from(">q", batches[-1])[0] + 1 if batches else 0
    oddness = rnd.choice((0, 0.1, 0.5, 1))
    case.broker = OddBroker(random.Random(rnd.getrandbits(64)), log[:MAX_BYTES], end_offset, oddness)
    bootstrap = ("--bootstrap", case.broker.bootstrap)
    partitions = rnd.choice(((), (), ("--partitions", "0,1"), ("--partitions", "2147483647")))
    case.add("pull", *bootstrap, "--out", "pulled", "--max-wait", "1", *partitions, *rnd.choice(((), ("--json",))))
    case.add_both("load", "pulled", "--json")


def arguments_case(rnd: random.Random, case: Case) -> None:
    """A log that is right, read with odd values of options."""
    log = case.folder / "__consumer_offsets-0"
    log.mkdir()
    (log / SEGMENT).write_bytes(random_log(rnd.getrandbits(32)))
    values = (str(odd_number(rnd)), odd_text(rnd), "9" * 5000, "-0", "1e5", "٣", "4.3.1", "0.0.0", "4." + "9" * 5000)
    for _ in range(6):
        command, option = rnd.choice(OPTIONS)
        value = rnd.choice(values).replace("\0", "")
        needed = NEEDED_OPTIONS.get(command, ())
        paths = PATHS_OF_COMMAND.get(command, (log,))
        case.add(command, *paths, *needed, f"{option}={value}")
    case.add(*(odd_text(rnd).replace("\0", "") for _ in range(rnd.choice((1, 2)))))
    case.add("load", odd_text(rnd).replace("\0", "") or "x", "--json")
    case.add("partition", "--json", odd_text(rnd).replace("\0", ""))
    case.add("decode", odd_text(rnd).replace("\0", ""))


NEEDED_OPTIONS = {
    "compact": ("--out", "out"),
    "explain": ("--group", "a"),
    "timeline": ("--group", "a"),
    "diff": ("--coordinators",),
}
"""Options without which a command does not run."""
PATHS_OF_COMMAND = {"partition": ("g",), "decode": (), "encode": ()}
"""The arguments before the options, for the commands that read no log."""
OPTIONS = [
    *(("load", name) for name in ("--kafka", "--partitions", "--until", "--until-time", "--to", "--snapshot")),
    *(("dump", name) for name in ("--kafka", "--from", "--until", "--until-time", "--group", "--type")),
    *(("dump", name) for name in ("--topic", "--partition", "--since-time")),
    *(("explain", name) for name in ("--kafka", "--topic", "--partition", "--until", "--until-time", "--partitions")),
    *(("timeline", name) for name in ("--kafka", "--partitions", "--max-batch-bytes")),
    *(("diff", name) for name in ("--since", "--since-time", "--until", "--kafka", "--max-batch-bytes")),
    *(("stats", name) for name in ("--top", "--kafka", "--partitions", "--max-batch-bytes")),
    *(("compact", name) for name in ("--now-ms", "--delete-retention-ms", "--first-dirty", "--first-uncleanable")),
    *(("compact", name) for name in ("--segment-bytes", "--map-entries", "--producer-expiration-ms")),
    *(("decode", name) for name in ("--kafka", "--coordinator")),
    ("encode", "--kafka"),
    ("partition", "--partitions"),
]
"""Options that take a value, each with its command."""

KINDS: dict[str, Callable[[random.Random, Case], None]] = {
    "log": log_case,
    "snapshot": snapshot_case,
    "lines": lines_case,
    "conversation": conversation_case,
    "special": special_case,
    "broker": broker_case,
    "arguments": arguments_case,
}
WEIGHTS = {"log": 60, "snapshot": 12, "lines": 10, "conversation": 10, "special": 3, "broker": 5, "arguments": 5}
"""How often each kind of case is chosen."""
