"""Run all commands on random hostile input: `python -m tests.fuzz.commands --seconds 60 --seed 1`.

Each command runs in a process with 1 GB of address space and ends after at most 60 seconds (worker.py).
A finding is one of these:

- an exception that leaves the command line, an exit code other than 0, 1 and 2, a signal, or a hang;
- with --json, a line on stdout that is no JSON;
- an exit code other than 0 without a message;
- control characters on stdout or stderr;
- two commands whose results must be equal and differ, for example with the two engines;

For each finding, the folder of findings gets a folder with the files of the case, the commands and their output.
`python -m tests.fuzz.commands --repeat FOLDER` runs the commands of a finding again.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from tests.fuzz.cases import KINDS, Case, make_case
from tests.fuzz.worker import HANG, Command, Result, Worker, make_worker

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that can change what a terminal shows, except tab and line feed."""


def find_problems(command: Command, result: Result) -> list[str]:
    """Return what is wrong with the result of a command."""
    if result.failure:
        return [f"failure: {result.failure}"]
    problems = []
    if result.status not in (0, 1, 2):
        problems.append(f"exit code {result.status}")
    if b"Traceback" in result.stderr:
        problems.append("a traceback on stderr")
    if b"not enough memory" in result.stderr:
        problems.append("not enough memory")
    if result.status and not result.stderr.strip():
        problems.append(f"exit code {result.status} without a message")
    if command.prints_json:
        problems += [f"no JSON: {line[:80]!r}" for line in result.stdout.splitlines() if not is_json(line)][:1]
    for name, data in (("stdout", result.stdout), ("stderr", result.stderr)):
        is_exact = "--format" in command.arguments and name == "stdout"
        found = CONTROLS.search(data.decode("utf-8", "replace"))
        if found and not is_exact:
            problems.append(f"{name} contains the control character {found[0]!r}")
    return problems


def is_json(line: bytes) -> bool:
    """Return whether a line is JSON. Python's own extensions, such as NaN, are not JSON."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        json.loads(line, parse_constant=refuse)
    except (ValueError, RecursionError):
        return False
    return True


def run_command(worker: Worker, command: Command, folder: Path) -> Result:
    """Run a command, and run it again if it hangs: a busy machine can stop a process for a minute."""
    result = worker.run(command, folder)
    return worker.run(command, folder) if result.failure == HANG else result


def run_case(worker: Worker, case: Case) -> tuple[list[str], list[Result]]:
    """Run all commands of a case. Return the problems, and the results of the commands."""
    results = [run_command(worker, command, case.folder) for command in case.commands]
    problems = []
    for index, (command, result) in enumerate(zip(case.commands, results, strict=True)):
        problems += [f"command {index} ({command.arguments[0]}): {line}" for line in find_problems(command, result)]
    for first, second in case.equal:
        if results[first].failure or results[second].failure:
            continue
        for name in ("status", "stdout", "stderr"):
            if getattr(results[first], name) != getattr(results[second], name):
                problems.append(f"commands {first} and {second} differ in {name}")
    return problems, results


def save_finding(folder: Path, case: Case, problems: list[str], results: list[Result]) -> None:
    """Keep the files of a case with its commands, problems and outputs. The commands get relative paths."""
    folder.mkdir(parents=True)
    for index, result in enumerate(results):
        (folder / f"{index}.stdout").write_bytes(result.stdout[:1_000_000])
        (folder / f"{index}.stderr").write_bytes(result.stderr[:1_000_000])
    prefix = f"{case.folder}/"
    commands = [
        {
            "arguments": [argument.replace(prefix, "").replace(str(case.folder), ".") for argument in each.arguments],
            "stdin": each.stdin and each.stdin.replace(prefix, ""),
        }
        for each in case.commands
    ]
    finding = {"problems": problems, "commands": commands, "equal": case.equal}
    (folder / "finding.json").write_text(json.dumps(finding, indent=1, ensure_ascii=False), errors="replace")
    with_outputs = shutil.ignore_patterns("tables-*", "compacted-*", "snapshot-*", "out", "played")
    with_special_files = any(not path.is_file() and not path.is_dir() for path in case.folder.rglob("*"))
    if not with_special_files:
        shutil.copytree(case.folder, folder / "files", symlinks=True, ignore=with_outputs)


def repeat(folder: Path) -> int:
    """Run the commands of a finding again, and print the problems."""
    finding = json.loads((folder / "finding.json").read_text())
    with tempfile.TemporaryDirectory() as place:
        files = Path(place) / "files"
        shutil.copytree(folder / "files", files, symlinks=True)
        commands = [
            Command(each["arguments"], each["stdin"] and str(files / each["stdin"])) for each in finding["commands"]
        ]
        case = Case(files, commands, [tuple(pair) for pair in finding["equal"]])
        worker = make_worker()
        problems, _ = run_case(worker, case)
        worker.stop()
    print("\n".join(problems) or "no problem")
    return int(bool(problems))


class Run:
    """A run of the fuzzer: the cases of a seed, and the findings, which are kept in the folder `findings`."""

    def __init__(self, seed: int, findings: Path, kinds: Collection[str] = ()) -> None:
        self.seed = seed
        self.kinds = kinds
        self.findings = findings
        self.worker = make_worker()
        self.results: Counter[str] = Counter()
        self.found = 0
        self.cases = 0

    def run(self, seconds: float, first: int = 0, count: int | None = None) -> None:
        """Run cases for some seconds, but at most `count` cases. `first` is the number of the first case."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and (count is None or self.cases < count):
            self._run_case(first + self.cases)
            self.cases += 1
        self.worker.stop()

    def _run_case(self, number: int) -> None:
        with make_folder() as place:
            case = make_case(self.seed, number, Path(place), self.kinds)
            problems, results = run_case(self.worker, case)
            case.close()
            for command, result in zip(case.commands, results, strict=True):
                self.results[f"{command.arguments[0][:20]} {result.status}"] += 1
            if problems:
                self._report(number, case, problems, results)

    def _report(self, number: int, case: Case, problems: list[str], results: list[Result]) -> None:
        self.found += 1
        for problem in problems:
            print(f"case {number}: {shorten(problem)}", flush=True)
        save_finding(self.findings / f"{self.seed}-{number}", case, problems, results)

    def report(self) -> None:
        """Print how many cases and commands were run, and the slowest commands."""
        commands = ", ".join(f"{name}: {count}" for name, count in sorted(self.results.items()) if count > 3)
        print(f"{self.cases} cases, {self.found} with findings. Commands by exit code: {commands}")
        for seconds, arguments in self.worker.slowest:
            print(f"{seconds:6.1f} s: {' '.join(arguments)[:200]}")


def make_folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="kafkagroups-case-")


def shorten(problem: str) -> str:
    """Return a problem in one line: of a traceback its first line, its last place in the package, and its last line."""
    lines = [line.strip() for line in problem.strip().splitlines()]
    places = [line for line in lines if line.startswith("File ") and "kafkagroups/" in line]
    parts = [lines[0], *places[-1:], lines[-1]] if len(lines) > 1 else lines
    return " | ".join(part[:300] for part in parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--count", type=int, help="run this many cases")
    parser.add_argument("--findings", type=Path, default=Path("findings"), help="a folder for the findings")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=(), help="only these kinds of cases")
    parser.add_argument("--repeat", type=Path, metavar="FOLDER", help="run the commands of a finding again")
    args = parser.parse_args()
    sys.stdout.reconfigure(errors="backslashreplace")
    if args.repeat:
        return repeat(args.repeat)
    run = Run(args.seed, args.findings, args.kinds)
    run.run(args.seconds, args.first, args.count)
    run.report()
    return int(run.found > 0)


if __name__ == "__main__":
    sys.exit(main())
