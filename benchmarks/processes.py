"""The workers as seen from outside: started, asked, watched, stopped; and how much memory they and theirs took."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
READY_SECONDS, ANSWER_SECONDS, STOP_SECONDS = 1200, 1800, 30


class Worker:
    """A way over a topic (worker.py). What it says besides its answers goes to the file `said`."""

    def __init__(self, way: str, about: Path, said: Path) -> None:
        self.said = said
        with open(said, "wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.worker", way, str(about)],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT)},  # Spark's workers too load with this package
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                start_new_session=True,  # so that its children end with it
            )

    def ready(self) -> dict:
        return self._answer(READY_SECONDS)

    def load(self) -> dict:
        """{"seconds", "live"}, or {"failed": …}."""
        try:
            print(file=self.process.stdin, flush=True)
        except OSError:
            return {"failed": "it ended"}
        return self._answer(ANSWER_SECONDS)

    def _answer(self, seconds: float) -> dict:
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                return {"failed": f"no answer within {seconds} s"}
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"failed": f"it ended: {self._last_words()}"}

    def _last_words(self) -> str:
        lines = self.said.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "without a word"

    def stop(self) -> None:
        with suppress(OSError):
            self.process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def watched(pid: int) -> Iterator[dict[str, dict[str, int]]]:
    """The most memory, in bytes, that a process and its Spark workers took meanwhile: {"own" | "worker": {"anonymous",
    "file"}}. The first is what they allocated, the second mapped files, which are the page cache's. Linux only."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: {"anonymous": 0, "file": 0})
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.01):
            for each in [pid, *descendants(pid)]:
                who = "own" if each == pid else "worker"
                with suppress(OSError, KeyError):
                    if who == "own" or b"pyspark" in Path(f"/proc/{each}/cmdline").read_bytes():
                        status = dict(
                            line.split(":", 1) for line in Path(f"/proc/{each}/status").read_text().splitlines()
                        )
                        for name, field in (("anonymous", "RssAnon"), ("file", "RssFile")):
                            now = int(status[field].split()[0]) * 1024
                            found[who][name] = max(found[who][name], now)

    watcher = threading.Thread(target=look, daemon=True)
    if Path("/proc/self/status").exists():
        watcher.start()
    try:
        yield found
    finally:
        over.set()
        if watcher.ident:
            watcher.join()


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children[parent].append(int(stat.parent.name))
    out, todo = [], [pid]
    while todo:
        mine = children[todo.pop()]
        out += mine
        todo += mine
    return out
