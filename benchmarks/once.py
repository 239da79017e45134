"""The time of whole processes, including imports: a user waits this long to load one log once."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTHING = "python -c pass"
SMALL_LOG = "kafkagroups load, a small shop's log"


def measure(large: Path | None, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each command, in turn; commands on the large topic run once. A failed one has no times."""
    small = {
        NOTHING: ["-c", "pass"],
        SMALL_LOG: ["-m", "kafkagroups", "load", "data/harbour/3.9.2", "--coordinator", "classic"],
    }
    found: dict[str, list[float]] = {name: [] for name in small}
    for _ in range(rounds):
        for name, words in small.items():
            found[name] += run_command(words)
    if large:
        load = ["-m", "kafkagroups", "load", str(large)]
        with tempfile.TemporaryDirectory(dir=large.parent) as out:
            for name, words in {
                "kafkagroups.load of the log in 50 partitions": [
                    "-c",
                    f"import kafkagroups; kafkagroups.load({load[-1]!r})",
                ],
                "kafkagroups load --to parquet:DIR of it": [*load, "--to", f"parquet:{out}/tables"],
                "kafkagroups load --json of it": [*load, "--json"],
            }.items():
                found[name] = run_command(words)
    return found


def run_command(words: list[str]) -> list[float]:
    """Return the seconds of one run, or an empty list if it failed."""
    start = time.perf_counter()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, cwd=ROOT, env=environment)
    return [] if done.returncode else [time.perf_counter() - start]
