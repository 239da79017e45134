"""The logs and the calls of tools/net.py. All paths are relative to the folder in which the calls run."""

from __future__ import annotations

import json
import lzma
import re
import shutil
import statistics
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOGS = Path("logs")
RELEASES = {
    "classic": ("0.8.2.2", "0.9.0.1", "0.10.2.2", "1.0.1", "2.3.1", "2.8.2", "3.9.2"),
    "new": ("4.0.2", "4.1.1", "4.3.1", "4.4.0"),
}
DEFAULTS = [["--coordinator", "classic"], ["--coordinator", "new"]]
ENGINES = ("python", "compiled")
SYNTHETIC = {
    "plain": "--records 1500 --partitions 2",
    "transactions": "--records 2k --partitions 3 --transactional 0.3 --generations --aborts 0.3 --hanging 0.02",
    "modern": "--records 1500 --partitions 2 --modern 0.5 --transactional 0.3 --metadata 0.2 --tombstones 0.1",
    "gzip": "--records 1500 --partitions 1 --codec gzip --generations",
    "snappy": "--records 1500 --partitions 1 --codec snappy --width varied",
    "lz4": "--records 1500 --partitions 1 --codec lz4 --transactional 0.3 --generations",
    "zstd": "--records 1500 --partitions 1 --codec zstd --width 50 --segment-bytes 10000",
    "large": "--records 60k --partitions 1 --transactional 0.2 --generations --codec lz4",
}
LARGE = ("logs/synth/large", "logs/releases/cases/lim-7-100000", "logs/releases/cases/lim-16-1000001")
"""How the paths of large logs begin. Only `load`, `check` and `stats` read them."""
PATHS_PER_CALL = 40
Call = dict[str, Any]
Run = Callable[[list[Call]], list[dict[str, Any]]]


def call(*steps: Sequence[str], engine: str = "", stdin: Path | None = None) -> Call:
    """Return a call. In its arguments, OUT stands for the folder of the engine, into which it may write."""
    out = f"out/{engine or 'any'}"
    option = ["--engine", engine] if engine else []
    lines = [[word.replace("OUT/", f"{out}/") for word in step] + option for step in steps]
    return {"steps": lines, "stdin": stdin and str(stdin), "out": out}


COMPILED_PROBE = call(["load", "logs/data/harbour/3.9.2"], engine="compiled")


# The logs.


def sources() -> list[Path]:
    """Return the files from which the logs are made."""
    folders = (ROOT / "tests" / "captured", ROOT / "data", ROOT / "tests" / "history" / "unclean_election")
    return [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]


def write_logs(work: Path, run: Run) -> None:
    """Unpack the captured logs, make others, and write the index of their groups, with the commands of a checkout."""
    logs = work / LOGS
    shutil.rmtree(work, ignore_errors=True)
    for archive in sorted((ROOT / "tests" / "captured").glob("*.tar.xz")):
        with tarfile.open(archive) as packed:
            packed.extractall(logs, filter="data")
    shutil.copytree(ROOT / "data", logs / "data")
    shutil.copytree(ROOT / "tests" / "history" / "unclean_election", logs / "unclean_election")
    for packed_lines in sorted(logs.rglob("*.jsonl.xz")):
        packed_lines.with_suffix("").write_bytes(lzma.decompress(packed_lines.read_bytes()))
    for number, folder in enumerate(sorted((logs / "runs").iterdir())):
        if number % 3 == 0:
            write_damaged(next(folder.rglob("*.log")).read_bytes(), logs / "damaged" / folder.name)
    write_log(logs / "foreign" / "text", b"These bytes are no log. " * 40)
    write_log(logs / "foreign" / "empty", b"")
    for name, options in SYNTHETIC.items():
        answer = run([call(["synth", "--out", f"logs/synth/{name}", "--groups", "20", *options.split()])])[0]
        if answer["codes"] != [0]:
            raise SystemExit(f"no synthetic log: {answer}")
    write_index(work, run)
    vectors = sorted((logs / "vectors").iterdir())
    decoded = run([call(["decode", "--jsonl"], stdin=path.relative_to(work)) for path in vectors])
    (logs / "decoded").mkdir()
    for path, answer in zip(vectors, decoded, strict=True):
        (logs / "decoded" / path.name).write_text(answer["texts"]["out"], encoding="utf-8")


def write_log(folder: Path, data: bytes) -> None:
    partition = folder / "__consumer_offsets-0"
    partition.mkdir(parents=True)
    (partition / f"{0:020}.log").write_bytes(data)


def write_damaged(data: bytes, folder: Path) -> None:
    """Write damaged copies of a log: a torn end, a flipped byte, zeros at the end, and zeros in the middle."""
    middle = len(data) // 2
    write_log(folder / "torn", data[: len(data) * 2 // 3])
    write_log(folder / "flipped", data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :])
    write_log(folder / "zeros", data + bytes(20))
    write_log(folder / "hole", data[:middle] + bytes(100) + data[middle + 100 :])


def write_index(work: Path, run: Run) -> None:
    """Write the groups of each partition directory, a time in the middle, and the last transactional producer."""
    folders = partition_folders(work)
    index = {}
    for folder, answer in zip(folders, run([call(["dump", "--json", folder]) for folder in folders]), strict=True):
        records = [json.loads(line) for line in answer["texts"]["out"].splitlines()]
        data = [(record.get("key") or {}).get("data") or {} for record in records]
        groups = {key.get("group", key.get("groupId")) for key in data} - {None}
        producers = [record["producer_id"] for record in records if record["transactional"]]
        times = [record["timestamp"] for record in records if record["timestamp"] is not None]
        middle = statistics.median_low(times) if times else 0
        index[folder] = {"groups": sorted(filter(is_argument, groups)), "time": middle, "producers": producers[-1:]}
    (work / LOGS / "index.json").write_text(json.dumps(index), encoding="utf-8")


def is_argument(text: str) -> bool:
    """Return whether an argument of a process can contain the text: no NUL, and no half of a UTF-16 character."""
    return "\0" not in text and text == text.encode("utf-8", "replace").decode()


def partition_folders(work: Path) -> list[str]:
    folders = {str(path.parent.relative_to(work)) for path in work.glob("logs/**/*.log")}
    return sorted(folder for folder in folders if not folder.startswith(LARGE))


# The calls.


def list_batches(work: Path) -> dict[tuple[str, str], list[Call]]:
    """Return the calls of each command and engine. The engine is "" for calls that do not choose one."""
    batches = defaultdict(list)
    for each in list_calls(work):
        words = each["steps"][-1]
        batches[words[0], words[-1] if words[-2:-1] == ["--engine"] else ""].append(each)
    return dict(batches)


def list_calls(work: Path) -> Iterator[Call]:
    index = json.loads((work / LOGS / "index.json").read_text(encoding="utf-8"))
    topics = defaultdict(list)  # A folder with its partition directories, or a folder that is named otherwise.
    for folder in index:
        topics[str(Path(folder).parent) if "__consumer_offsets-" in folder else folder].append(folder)
    paths = sorted(topics)
    groups = {path: sorted({group for part in topics[path] for group in index[part]["groups"]}) for path in topics}
    times = {path: str(index[topics[path][0]]["time"]) for path in topics}
    large = sorted(str(path.relative_to(work)) for start in LARGE for path in work.glob(f"{start}*"))
    for engine in ENGINES:
        yield from calls_of_many_paths(paths, large, engine)
        for path in paths:
            yield from calls_of_path(path, groups[path], times[path], engine)
        for folder in index:
            yield from calls_of_partition(folder, engine)
    for path in paths:
        yield from calls_without_engine(path, groups[path], times[path])
    for path, next_path in pairwise(paths):
        yield call(["diff", "--json", path, next_path])
    for folder, facts in index.items():
        yield from edits(folder, facts["groups"], facts["producers"])
    yield from calls_without_log(work)


def calls_of_many_paths(paths: list[str], large: list[str], engine: str) -> Iterator[Call]:
    """Calls of `load`, `check` and `stats`, which answer each path in a line."""
    dumped = [f"logs/dumplog/magic{magic}/{0:020}.log" for magic in (0, 1, 2)]
    everything = [*paths, *dumped, "logs/missing"]
    damaged = [path for path in paths if "/damaged/" in path or "/crafted/" in path]
    for coordinator, releases in RELEASES.items():
        for release in releases:
            for chunk in chunks(everything):
                rules = ["--coordinator", coordinator, "--kafka", release]
                yield call(["load", "--json", *rules, *chunk], engine=engine)
    paths_by_rules = defaultdict(list)
    for path in paths:
        paths_by_rules[tuple(own_rules(path))].append(path)
    for rules in [*DEFAULTS, ["--kafka", "4.4.0"]]:
        yield call(["load", "--json", *rules, *large], engine=engine)
        yield call(["check", "--json", *rules, large[-1]], engine=engine)
        yield call(["stats", "--json", *rules, large[-1]], engine=engine)
        paths_by_rules[tuple(rules)] += everything
    for rules, ruled in paths_by_rules.items():
        for chunk in chunks(ruled):
            yield call(["check", "--json", *rules, *chunk], engine=engine)
            yield call(["stats", "--json", *rules, *chunk], engine=engine)
    for rules in DEFAULTS:
        for chunk in chunks(damaged):
            for command in ("load", "stats"):
                yield call([command, "--json", "--past-damage", *rules, *chunk], engine=engine)
    for chunk in chunks(paths):
        yield call(["load", "--json", "--partitions", "5", "--group", "*a*", *chunk], engine=engine)
        for options in (["--to", "1.0.1"], ["--to", "4.4.0", "--to-coordinator", "new"]):
            yield call(["check", "--json", "--coordinator", "classic", *options, *chunk], engine=engine)
    for chunk in chunks([path for path in paths if is_story(path)]):
        yield call(["check", "--json", "--to", "3.9.2", "--to-coordinator", "classic", *chunk], engine=engine)
        for key in ("topic", "type", "partition", "writer"):
            yield call(["stats", "--json", "--by", key, *chunk], engine=engine)


def calls_of_path(path: str, groups: list[str], time: str, engine: str) -> Iterator[Call]:
    """The calls of one path with an engine."""
    own = own_rules(path)
    for rules in [*DEFAULTS, own] if own else DEFAULTS:
        yield call(["explain", "--json", "--group", "*", *rules, path], engine=engine)
        yield call(["rescue", "plan", "--json", *rules, path], engine=engine)
    yield call(["report", "--out", "OUT/report.html", *own, path], engine=engine)
    yield call(["explain", "--json", "--group", "*", "--past-damage", "--until-time", time, *own, path], engine=engine)
    for group in groups:
        yield call(["timeline", "--json", f"--group={group}", *own, path], engine=engine)
    if is_story(path):
        yield call(["load", "--json", "--until-time", time, *own, path], engine=engine)
        yield call(["load", "--json", "--to", "parquet:OUT/tables", *own, path], engine=engine)
        yield call(*[["load", "--json", "--snapshot", "OUT/snapshot", *own, path]] * 2, engine=engine)
        yield call(
            ["explain", "--json", "--group", "*", "--topic", "t", "--retention", "1h", *own, path], engine=engine
        )
        yield call(["rescue", "plan", "--json", "--group", "a*", "--until-time", time, *own, path], engine=engine)
        for group in groups:
            yield call(["timeline", "--json", "--all", "--retention=7d", f"--group={group}", path], engine=engine)


def calls_of_partition(folder: str, engine: str) -> Iterator[Call]:
    """Passes of the log cleaner."""
    clean = ["compact", folder, "--json", "--out", "OUT/log"]
    yield call(clean, engine=engine)
    yield call([*clean, "--now-ms", "1900000000000", "--delete-retention-ms", "0"], engine=engine)
    yield call([*clean, "--map-entries", "3", "--segment-bytes", "400"], engine=engine)


def calls_without_engine(path: str, groups: list[str], time: str) -> Iterator[Call]:
    """The calls without --engine, and the texts for people."""
    own = own_rules(path)
    kafka = own[2:]
    yield call(["diff", "--json", "--coordinators", path])
    yield call(["diff", "--json", "--since-time", time, *own, path])
    yield call(["dump", "--json", path])
    yield call(["dump", "--json", "--past-damage", *kafka, path])
    yield call(["dump", "--format", "dump-log", *kafka, path])
    yield call(["dump", "--format", "formatter", *kafka, path])
    yield call(["dump", "--json", "--type", "OffsetCommit", "--tombstones", "--since-time", time, path])
    yield call(["dump", path])
    yield call(["diff", "--coordinators", path])
    for command in ("load", "stats", "check"):
        yield call([command, *own, path])
    yield call(["explain", "--group", "*", *own, path])
    yield call(["rescue", "plan", *own, path])
    for group in groups[:1]:
        yield call(["timeline", f"--group={group}", *own, path])
        yield call(["dump", "--json", f"--group={group}", "--from=2", path])


def edits(folder: str, groups: list[str], producers: list[int]) -> Iterator[Call]:
    """Changes of a partition's log, by several steps."""
    group = groups[0] if groups else "net"
    edit = ["edit", folder, "--json", "--out", "OUT/log"]
    clean = ["--roll", "--clean=1900000000000"]
    yield call([*edit, "--commit=net:orders-0=42", f"--delete-group={group}", *clean])
    yield call([*edit, "--cut=5", f"--commit={group}:orders-0=7@1700000000000", f"--tombstone={group}:orders-0"])
    for marker in [[], *([f"--marker=abort:{producer}"] for producer in producers)]:
        yield call([*edit, *marker, *clean, "--commit=net:orders-0=1", *clean, "--delete-retention-ms=0"])


def calls_without_log(work: Path) -> Iterator[Call]:
    """The calls of `decode`, `encode`, `partition`, `synth` and `replay`."""
    logs = work / LOGS
    rules = [[], ["--strict"], ["--coordinator", "classic"]]
    rules += [["--kafka", version] for version in ("1.0.1", "2.3.1", "2.8.2", "4.0.2", "4.4.0")]
    records = [*sorted(logs.glob("vectors/*")), *sorted(logs.glob("errors*.jsonl")), logs / "v440" / "vectors.jsonl"]
    for path in records:
        for rule in rules:
            yield call(["decode", "--jsonl", *rule], stdin=path.relative_to(work))
    for path in sorted(logs.glob("decoded/*")):
        for rule in ([], ["--kafka", "1.0.1"], ["--kafka", "2.8.2"], ["--kafka", "4.4.0"]):
            yield call(["encode", "--jsonl", *rule], stdin=path.relative_to(work))
    for path in sorted(logs.glob("vectors/*")):
        for line in path.read_text(encoding="utf-8").splitlines()[:3]:
            record = json.loads(line)
            words = [record["key_hex"], *filter(None, [record.get("value_hex")])]
            yield call(["decode", *words])
            yield call(["decode", "--json", *words])
    ids = defaultdict(list)
    for line in (logs / "partition_for.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        ids[row["n"]] += filter(is_argument, [row["group"]])
    for count, group_ids in ids.items():
        yield call(["partition", "--json", "--partitions", str(count), "--", *group_ids])
    for name, options in SYNTHETIC.items():
        for seed in ("1", "2"):
            yield call(["synth", "--json", "--out", f"OUT/{name}", "--groups", "20", "--seed", seed, *options.split()])
    for path in sorted(logs.glob("conversations/*/conversation.jsonl")):
        if own_rules(str(path))[1] == "classic":
            yield call(["replay", str(path.relative_to(work)), "--out", "OUT/log"])


def chunks(paths: list[str]) -> Iterable[list[str]]:
    return [paths[start : start + PATHS_PER_CALL] for start in range(0, len(paths), PATHS_PER_CALL)]


def own_rules(path: str) -> list[str]:
    """Return the options of the release that wrote the log, which its path names, or no options."""
    release = re.search(r"(?<![\d.])\d+(\.\d+){2,3}(?![\d.])", path)
    if release is None:
        return []
    return ["--coordinator", "new" if release[0] >= "4" else "classic", "--kafka", release[0]]


def is_story(path: str) -> bool:
    """Return whether the log tells a longer story, and is read with more options."""
    return path.startswith(("logs/runs/", "logs/v440/", "logs/data/harbour/", "logs/unclean_election/"))
