"""Record what every command answers for every captured, crafted, release and story log, and compare two commits.

    python tools/net.py compare BASE NEW     each a commit, `worktree` (this folder as it is), or a recording's file
    python tools/net.py record COMMIT

Every difference is a defect, unless an entry of tools/net_differences.json says why it is intended:

    {"call": "check *", "at": "out.findings.*.command", "change": "added", "reason": "a finding names its command"}

`call` and `at` are patterns (* and ?), for the command line and for the place that differs: `codes`, `err`, `crash`,
`out` (a text), `out.` and a path in the JSON, or `files.` and a file's name. `change` is `added`, `removed` or
`changed`; without it, the entry matches every change. `log` is a pattern for the path of the log that a line of JSON is
about. An entry that matches nothing is reported, too. How long a check took ("seconds") is not recorded, and the
commands `doctor`, `pull` and `rescue apply` are not called.

The tool knows only the command line. One process for each command and engine makes all calls of it, one after another
(net_process.py); net_calls.py says which. Two processes run at a time, one of them with the compiled engine. All logs
are unpacked once, into build/net/work, so both commits see the same paths. The recording of a commit is kept as
build/net/COMMIT.jsonl.gz, because a later environment may lack what an old commit needs. Delete it to record the commit
again. NET_PATH=FOLDER: import an engine from there, too.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import net_calls
from net_calls import ROOT, Call
from net_process import BROKEN

STORE = ROOT / "build" / "net"
WORK = STORE / "work"
"""The folder in which the calls run. It contains `logs`, and `out` with what a call writes."""
INTENDED = ROOT / "tools" / "net_differences.json"
WORKTREE = "worktree"
SHOWN = 10
"""How many places of a command's differences are printed."""
MEMORY = "/dev/shm"
ABSENT = object()
Batch = tuple[str, str]
"""A command and an engine."""
Difference = tuple[str, Any, Any]
"""The place of a difference, and the values of both sides there, or ABSENT."""


# Recording.


def record(name: str) -> Path:
    """Record a commit or the worktree, unless the commit was recorded before, and return the file."""
    commit = name if name == WORKTREE else git("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
    recording = STORE / f"{commit}.jsonl.gz"
    if recording.exists() and commit != WORKTREE:
        return recording
    with alone(), checked_out(commit) as checkout:
        write_logs(checkout)
        batches = net_calls.list_batches(WORK)
        print(f"record {commit}")
        start = time.monotonic()
        probe = run_calls(checkout, [net_calls.COMPILED_PROBE])[0]
        if probe["codes"] != [0]:
            print(f"  the compiled engine is left out: {probe}")
            batches = {batch: calls for batch, calls in batches.items() if batch[1] != "compiled"}
        answers = run_batches(checkout, batches)
    write(recording, batches, answers)
    calls = sum(map(len, batches.values()))
    size = recording.stat().st_size / 1e6
    print(f"  {calls} calls, {time.monotonic() - start:.0f} s, {size:.1f} MB in {recording.relative_to(ROOT)}")
    return recording


@contextmanager
def alone() -> Iterator[None]:
    """Wait until no other process records, because all write into the same folder."""
    STORE.mkdir(parents=True, exist_ok=True)
    with open(STORE / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Check out a commit as a worktree of git. What a run that was killed has left is removed first."""
    if commit == WORKTREE:
        yield ROOT
        return
    checkout = STORE / "checkout"
    shutil.rmtree(checkout, ignore_errors=True)
    git("worktree", "add", "--force", "--detach", str(checkout), commit)
    try:
        yield checkout
    finally:
        git("worktree", "remove", "--force", str(checkout))


def write_logs(checkout: Path) -> None:
    """Make the logs, unless they were made from the same sources."""
    made_from = WORK / "made_from"
    state = hash_of(path.read_bytes() for path in [Path(net_calls.__file__), *net_calls.sources()])
    if not made_from.exists() or made_from.read_text() != state:
        print("unpack the logs")
        net_calls.write_logs(WORK, lambda calls: run_calls(checkout, calls))
        made_from.write_text(state)


def read_logs() -> Iterator[bytes]:
    for path in sorted(WORK.glob("logs/**/*")):
        yield str(path.relative_to(WORK)).encode()
        if path.is_file():
            yield path.read_bytes()


def run_batches(checkout: Path, batches: dict[Batch, list[Call]]) -> dict[Batch, list[dict[str, Any]]]:
    """Run all calls: those of the compiled engine in one lane, so that its kernels are compiled once."""

    def run_lane(lane: list[Batch]) -> dict[Batch, list[dict[str, Any]]]:
        answers = {}
        for batch in lane:
            start = time.monotonic()
            answers[batch] = run_calls(checkout, batches[batch])
            print(f"  {' '.join(batch):20} {len(batches[batch]):5} calls {time.monotonic() - start:4.0f} s", flush=True)
        return answers

    compiled = [batch for batch in batches if batch[1] == "compiled"]
    others = [batch for batch in batches if batch[1] != "compiled"]
    with ThreadPoolExecutor(2) as pool:
        lanes = list(pool.map(run_lane, [compiled, others]))
    return lanes[0] | lanes[1]


def run_calls(checkout: Path, calls: list[Call]) -> list[dict[str, Any]]:
    """Run calls in one process, and return the answers. If a call ends the process, a new one goes on after it."""
    path = os.pathsep.join(filter(None, [str(checkout), os.environ.get("NET_PATH", "")]))
    environment = os.environ | {"PYTHONPATH": path, "COLUMNS": "80", "TZ": "UTC"}
    if os.access(MEMORY, os.W_OK):  # `check` writes many small files.
        environment["TMPDIR"] = MEMORY
    answers: list[dict[str, Any]] = []
    WORK.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        calls_file = Path(folder) / "calls"
        results = Path(folder) / "results"
        while len(answers) < len(calls):
            calls_file.write_text("".join(json.dumps(call) + "\n" for call in calls[len(answers) :]))
            results.write_text("")
            shutil.rmtree(WORK / calls[0]["out"], ignore_errors=True)
            process = str(ROOT / "tools" / "net_process.py")
            command = [sys.executable, "-P", process, str(calls_file), str(results), str(checkout)]
            code = subprocess.run(command, cwd=WORK, env=environment).returncode
            answers += [json.loads(line) for line in results.read_text().splitlines()]
            if code == BROKEN:
                raise SystemExit(f"the package of {checkout} cannot be called; the reason is above")
            if len(answers) < len(calls):
                answers.append({"codes": [], "texts": {"crash": f"the process ended with {code}"}})
    return answers


def write(recording: Path, batches: dict[Batch, list[Call]], answers: dict[Batch, list[dict]]) -> None:
    """Write a recording: a line for each text, which many calls can share, before the first call with this text."""
    written = set()
    with gzip.open(recording, "wt", encoding="utf-8", compresslevel=6) as file:
        print(json.dumps({"logs": hash_of(read_logs())}), file=file)
        for batch, calls in batches.items():
            for call, answer in zip(calls, answers[batch], strict=True):
                hashes = {place: hash_of([text.encode()]) for place, text in answer["texts"].items()}
                for place, text in answer["texts"].items():
                    if hashes[place] not in written:
                        written.add(hashes[place])
                        print(json.dumps({"hash": hashes[place], "text": text}), file=file)
                line = " ; ".join(map(shlex.join, call["steps"])) + (f" < {call['stdin']}" if call["stdin"] else "")
                row = {"call": line, "batch": batch, "codes": answer["codes"], "texts": hashes}
                print(json.dumps(row), file=file)


def read(recording: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(recording, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def hash_of(parts: Iterable[bytes]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(b"%d:" % len(part))
        total.update(part)
    return total.hexdigest()


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


# Comparing.


def compare(old: Path, new: Path) -> int:
    """Print the differences of two recordings. Return how many are not intended."""
    if next(read(old)) != next(read(new)):
        print("note: the two sides were recorded with different logs; a difference can be one of the logs")
    sides = [{row["call"]: row for row in read(recording) if "call" in row} for recording in (old, new)]
    missing: Counter[str] = Counter()
    for side, other in (sides, reversed(sides)):
        missing.update(" ".join(row["batch"]) for call, row in side.items() if call not in other)
    for batch, count in missing.items():
        print(f"note: {count} calls of {batch} were recorded on one side only; they are not compared")
    pairs = [(sides[0][call], sides[1][call]) for call in sides[0] if call in sides[1]]
    differing = [pair for pair in pairs if pair[0]["codes"] != pair[1]["codes"] or pair[0]["texts"] != pair[1]["texts"]]
    wanted = {text for pair in differing for row in pair for text in row["texts"].values()}
    texts = {row["hash"]: row["text"] for side in (old, new) for row in read(side) if row.get("hash") in wanted}
    intended = json.loads(INTENDED.read_text(encoding="utf-8"))
    used: Counter[int] = Counter()
    found = defaultdict(list)
    for pair in differing:
        for log, place, was, now in differences_of_answers(*pair, texts):
            number = find_intended(intended, pair[0]["call"], log, place, was, now)
            if number is None:
                found[" ".join(pair[0]["batch"])].append((pair[0]["call"], place, was, now))
            else:
                used[number] += 1
    for command, differences in found.items():
        print(f"\n{command}: {len(differences)} differences in {len({each[0] for each in differences})} calls")
        places = Counter(general(each[1]) for each in differences)
        for place, count in places.most_common(SHOWN):
            call, first_place, was, now = next(each for each in differences if general(each[1]) == place)
            print(f"  {count} × {place}, first at {first_place} of")
            print(
                f"    {call if len(call) <= 300 else call[:300] + '…'}\n    - {show(was, now)}\n    + {show(now, was)}"
            )
        if len(places) > SHOWN:
            print(f"  and {len(places) - SHOWN} other places")
    for number, entry in enumerate(intended):
        print(f"intended, {used[number] or 'matches nothing'}: {entry['reason']}")
    total = sum(map(len, found.values()))
    print(f"{len(pairs)} calls compared, {len(differing)} differ; {total} differences are not intended")
    return total


def differences_of_answers(old: dict, new: dict, texts: dict[str, str]) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield the path of the log that a line of JSON is about, or "", and the place and the values of a difference."""
    if old["codes"] != new["codes"]:
        yield "", "codes", old["codes"], new["codes"]
    for place in sorted(old["texts"].keys() | new["texts"].keys()):
        hashes = [side["texts"].get(place) for side in (old, new)]
        if hashes[0] == hashes[1]:
            continue
        was, now = [[parse(line) for line in texts[each].splitlines()] if each else [] for each in hashes]
        paths = [[str(line.get("path", "")) for line in side if isinstance(line, dict)] for side in (was, now)]
        if paths[0] == paths[1] and len(paths[0]) == len(was) == len(now):
            for path, old_line, new_line in zip(paths[0], was, now, strict=True):
                yield from ((path, *each) for each in differences(old_line, new_line, place))
        else:
            yield from (("", *each) for each in differences(was, now, place, is_text=True))


def parse(line: str) -> Any:
    """Return the JSON in a line of stdout, or the line."""
    try:
        return json.loads(line) if line.startswith("{") else line
    except ValueError:
        return line


def differences(was: Any, now: Any, place: str, is_text: bool = False) -> Iterator[Difference]:
    """Yield where two JSON values differ. The place of a line in a text has no number, so a pattern needs none."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in [*was, *(key for key in now if key not in was)]:
            yield from differences(was.get(key, ABSENT), now.get(key, ABSENT), f"{place}.{key}")
    elif isinstance(was, list) and isinstance(now, list):
        start = 0
        while start < min(len(was), len(now)) and was[start] == now[start]:
            start += 1
        end = 0
        while len(was) != len(now) and end < min(len(was), len(now)) - start and was[-1 - end] == now[-1 - end]:
            end += 1
        for number in range(start, max(len(was), len(now)) - end):
            old = was[number] if number < len(was) - end else ABSENT
            new = now[number] if number < len(now) - end else ABSENT
            yield from differences(old, new, place if is_text else f"{place}.{number}")
    elif was is ABSENT or now is ABSENT or was != now or type(was) is not type(now):
        yield place, was, now


def general(place: str) -> str:
    """Return a place without its numbers, as a pattern."""
    return re.sub(r"\.\d+(?=\.|$)", ".*", place)


def find_intended(intended: list[dict[str, str]], call: str, log: str, place: str, was: Any, now: Any) -> int | None:
    """Return the number of the first entry that matches a difference."""
    change = "changed"
    if was is ABSENT or now is ABSENT:
        change = "added" if was is ABSENT else "removed"
    for number, entry in enumerate(intended):
        is_call = fnmatchcase(call, entry["call"]) and fnmatchcase(log, entry.get("log", "*"))
        if is_call and fnmatchcase(place, entry["at"]) and entry.get("change", change) == change:
            return number
    return None


def show(value: Any, other: Any) -> str:
    """Return a short text for a value, with the first character that differs from the other value."""
    if value is ABSENT:
        return "(absent)"
    text = json.dumps(value, ensure_ascii=False)
    other_text = "" if other is ABSENT else json.dumps(other, ensure_ascii=False)
    same = next((place for place, pair in enumerate(zip(text, other_text, strict=False)) if pair[0] != pair[1]), 0)
    start = max(0, same - 40) if len(text) > 160 else 0
    return ("…" if start else "") + text[start : start + 160] + ("…" if start + 160 < len(text) else "")


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["compare"] and len(arguments) == 3:
        sides = [Path(name) if name.endswith(".jsonl.gz") else record(name) for name in arguments[1:]]
        return int(compare(*sides) > 0)
    if arguments[:1] == ["record"] and len(arguments) == 2:
        record(arguments[1])
        return 0
    print("usage: python tools/net.py compare BASE NEW | record COMMIT", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
