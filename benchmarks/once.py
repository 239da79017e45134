"""Whole processes, from nothing: what a user waits for who loads one log once. Imports are in the time here."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
SMALL = ["-m", "kafkagroups", "load", "data/harbour/3.9.2", "--coordinator", "classic"]


def seconds(words: list[str]) -> float:
    start = time.perf_counter()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, cwd=ROOT, env=environment)
    return time.perf_counter() - start


def measure(large: Path | None, rounds: int) -> dict[str, list[float]]:
    """Seconds of each command, in turn; those on the large topic once."""
    commands = {
        "python -c pass": ["-c", "pass"],
        "kafkagroups load, a small shop's log": SMALL,
    }
    found = {name: [seconds(words) for _ in range(1)][:0] for name, words in commands.items()}
    for _ in range(rounds):
        for name, words in commands.items():
            found[name].append(seconds(words))
    if large:
        load = f"import kafkagroups; kafkagroups.load({str(large)!r})"
        found["kafkagroups.load in a new process, 50 partitions"] = [seconds(["-c", load])]
        found["kafkagroups load --json, the same"] = [seconds(["-m", "kafkagroups", "load", str(large), "--json"])]
    return found
