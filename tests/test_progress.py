"""A load reports its progress to a callback, and the command shows a bar on a terminal."""

import os
import pty
import subprocess
import sys

import pytest

import kafkagroups as kg
from kafkagroups import synth

CHILD = """
import time
from kafkagroups.cli.output import MIN_BYTES_FOR_BAR, progress_bar
with progress_bar() as report:
    for done in range(5):
        report("loading", done * MIN_BYTES_FOR_BAR, 4 * MIN_BYTES_FOR_BAR)
        time.sleep(0.2)
"""


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_progress_hears_of_all_bytes(engine, tmp_path):
    """The bytes read never fall, in any thread. At the end they are the bytes of all segments."""
    synth.write(tmp_path / "log", 20_000, partitions=5)
    size = sum(file.stat().st_size for file in (tmp_path / "log").rglob("*.log"))
    heard = []
    kg.load(tmp_path / "log", engine=engine, threads=2, progress=lambda *given: heard.append(given))
    assert {(step, total) for step, _, total in heard} == {("loading", size)}
    done = [each for _, each, _ in heard]
    assert done == sorted(done) and done[-1] == size and len(done) >= 5


def test_a_bar_on_a_terminal():
    """The bar shows the step and how much is done."""
    ours, its = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    child = subprocess.Popen([sys.executable, "-c", CHILD], stderr=its, env=environment)
    os.close(its)
    shown = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:  # Linux's word for the other end being closed
            break
        if not more:
            break
        shown += more
    os.close(ours)
    assert child.wait() == 0
    text = shown.decode()
    assert "loading" in text and "100%" in text, text
