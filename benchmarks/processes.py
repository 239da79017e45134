"""The worker processes: start, request a load, watch the memory, stop."""

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
READY_SECONDS = 1200
ANSWER_SECONDS = 1800
STOP_SECONDS = 30


class Worker:
    """A process that loads a topic in one way (worker.py). Its stderr goes to the file `output`."""

    def __init__(self, way: str, about: Path, output: Path) -> None:
        self.output = output
        with open(output, "wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.worker", way, str(about)],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT)},  # Spark's workers need the package, too.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                start_new_session=True,  # Its children then end with it.
            )

    def wait_until_ready(self) -> dict:
        """Return {"ready"}, or why the way cannot run: {"missing"} or {"failed"}."""
        return self._read_answer(READY_SECONDS)

    def load(self) -> dict:
        """Load once. Return {"seconds", "live"} or {"failed"}."""
        try:
            print(file=self.process.stdin, flush=True)
        except OSError:
            return {"failed": "the process ended"}
        return self._read_answer(ANSWER_SECONDS)

    def _read_answer(self, seconds: float) -> dict:
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                return {"failed": f"no answer within {seconds} s"}
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"failed": f"the process ended: {self._last_line()}"}

    def _last_line(self) -> str:
        lines = self.output.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no output"

    def stop(self) -> None:
        with suppress(OSError):
            self.process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def watch_memory(pid: int) -> Iterator[dict[str, dict[str, int]]]:
    """Measure the peak memory of a process and its Spark workers, in bytes, while the block runs. Linux only.

    The result is {"own" | "worker": {"anonymous", "file"}}. Anonymous memory is what they allocated. File memory is
    mapped files, which belong to the page cache.
    """
    found: dict[str, dict[str, int]] = defaultdict(lambda: {"anonymous": 0, "file": 0})
    is_over = threading.Event()

    def sample() -> None:
        while not is_over.wait(0.01):
            for each in [pid, *find_descendants(pid)]:
                who = "own" if each == pid else "worker"
                with suppress(OSError, KeyError):
                    if who == "own" or b"pyspark" in Path(f"/proc/{each}/cmdline").read_bytes():
                        status = dict(
                            line.split(":", 1) for line in Path(f"/proc/{each}/status").read_text().splitlines()
                        )
                        for name, field in (("anonymous", "RssAnon"), ("file", "RssFile")):
                            now = int(status[field].split()[0]) * 1024
                            found[who][name] = max(found[who][name], now)

    watcher = threading.Thread(target=sample, daemon=True)
    if Path("/proc/self/status").exists():
        watcher.start()
    try:
        yield found
    finally:
        is_over.set()
        if watcher.ident:
            watcher.join()


def find_descendants(pid: int) -> list[int]:
    """Return the ids of all processes below one."""
    children: dict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children[parent].append(int(stat.parent.name))
    out = []
    todo = [pid]
    while todo:
        mine = children[todo.pop()]
        out += mine
        todo += mine
    return out
