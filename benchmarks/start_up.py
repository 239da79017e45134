"""The time of new processes that load a log once, with an older commit and with this checkout.

    python -m benchmarks.start_up [--old COMMIT] [--log DIR] [--rounds 10] [--write]

Each round runs every command with the old and then with the new package. The first run of each is not measured, because
it compiles the kernels. The ratio is the new median divided by the old median, in one run on one machine. `--write`
stores the results in measured.json, and writes them to docs/performance.md.

With bytecode, Python finds the compiled modules of all packages, as after a usual installation. Without bytecode,
Python compiles each module at every start, as in many containers (PYTHONDONTWRITEBYTECODE).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import machine, report, topics

ROOT = Path(__file__).parents[1]
OLD_COMMIT = "33fadd0"
"""The last commit before the machine code of the kernels was stored."""
RECORDS = 1_000_000
COMMANDS = {
    "import kafkagroups": ["-c", "import kafkagroups"],
    "kafkagroups.load": ["-c", "import sys, kafkagroups; kafkagroups.load(sys.argv[1])"],
    "kafkagroups load --json": ["-m", "kafkagroups", "load", "--json"],
}
FIND_FACTS = """
import json, sys
import kafkagroups
kafkagroups.load(sys.argv[1])
has_imported_numba = "numba" in sys.modules
try:
    from kafkagroups.kernels.stored_code import STORE
    functions = len(STORE.fetched)
except ImportError:  # The old package: numba's own cache.
    modules = [module for name, module in sys.modules.items() if name.startswith("kafkagroups.kernels.")]
    kernels = {id(each): each for module in modules for each in vars(module).values() if hasattr(each, "stats")}
    functions = sum(sum(kernel.stats.cache_hits.values()) for kernel in kernels.values())
print(json.dumps({"numba": has_imported_numba, "functions": functions}))
"""
"""Prints whether a load imports numba, and how many compiled functions it fetches from the cache."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start_up", description=__doc__.partition("\n")[0])
    parser.add_argument("--old", default=OLD_COMMIT, metavar="COMMIT", help=f"the older commit ({OLD_COMMIT})")
    parser.add_argument("--log", type=Path, metavar="DIR", help="the log to load (a generated one, 1,000,000 records)")
    parser.add_argument("--rounds", type=int, default=10, help="how often each command runs (10)")
    parser.add_argument("--write", action="store_true", help="write the results to docs/performance.md")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kafkagroups-start-up-") as place:
        log = args.log or topics.generate(Path(place), RECORDS, 50, 1000).folder
        packages = {"old": extract_commit(args.old, Path(place, "old")), "new": ROOT}
        measured = {
            "machine": machine.describe(),
            "old_commit": args.old,
            "with bytecode": measure(packages, log, args.rounds, Path(place, "bytecode")),
            "without bytecode": measure(packages, log, args.rounds, None),
        }
    print("\n\n".join([report.format_machine(measured["machine"]), *format_settings(measured)]))
    if args.write:
        all_measured = json.loads(report.MEASURED.read_text()) | {"start_up": measured}
        report.MEASURED.write_text(json.dumps(all_measured, indent=1) + "\n")
        report.write_docs(all_measured)


def extract_commit(commit: str, folder: Path) -> Path:
    """Write the package of a commit into a folder, and return the folder."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit, "kafkagroups"], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x"], cwd=folder, check=True, input=archive.stdout)
    return folder


def measure(packages: dict[str, Path], log: Path, rounds: int, bytecode: Path | None) -> dict:
    """Return the seconds of each command, and the facts of a load, by package.

    `bytecode` is the folder for Python's bytecode, or None.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPYCACHEPREFIX": str(bytecode)} if bytecode else {"PYTHONDONTWRITEBYTECODE": "1"}
    seconds: dict = {command: {name: {"elapsed": [], "cpu": []} for name in packages} for command in COMMANDS}
    facts = {}
    for name, package in packages.items():
        for words in (*COMMANDS.values(), ["-c", FIND_FACTS]):
            printed = run([*words, str(log)], package, environment)[0]
        facts[name] = json.loads(printed)
    for _ in range(rounds):
        for command, words in COMMANDS.items():
            for name, package in packages.items():
                _, elapsed, cpu = run([*words, str(log)], package, environment)
                seconds[command][name]["elapsed"].append(elapsed)
                seconds[command][name]["cpu"].append(cpu)
    return {"seconds": seconds, "facts": facts}


def run(words: list[str], package: Path, environment: dict[str, str]) -> tuple[bytes, float, float]:
    """Return the output of a Python process with a package, its elapsed seconds and its CPU seconds."""
    cpu_before = count_cpu_seconds()
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *words],
        cwd=package,
        env=environment | {"PYTHONPATH": str(package)},
        check=True,
        stdout=subprocess.PIPE,
    )
    return done.stdout, time.perf_counter() - start, count_cpu_seconds() - cpu_before


def count_cpu_seconds() -> float:
    """Return the CPU seconds of all processes that this process has run."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def format_settings(measured: dict) -> list[str]:
    """Return a table and the facts for each setting, with and without bytecode."""
    out = []
    for setting in ("with bytecode", "without bytecode"):
        lines = [f"{setting}: medians, old ({measured['old_commit']}) and new"]
        lines.append(f"  {'':<26}{'old s':>8}{'new s':>8}{'ratio':>8}{'old CPU s':>12}{'new CPU s':>12}{'ratio':>8}")
        for command, *cells in report.make_start_up_rows(measured[setting]):
            lines.append("  {:<26}{:>8}{:>8}{:>8}{:>12}{:>12}{:>8}".format(command, *cells))
        for name, facts in measured[setting]["facts"].items():
            verb = "imports" if facts["numba"] else "does not import"
            lines.append(f"  {name}: a load {verb} numba, and fetches {facts['functions']} compiled functions")
        out.append("\n".join(lines))
    return out


if __name__ == "__main__":
    main()
