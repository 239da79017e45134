"""An output exists as a whole or not at all: after a kill, with a full disk, and with two runs into one output."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import synth
from tests.command import main

ROOT = Path(__file__).parents[2]
STORY = ROOT / "data" / "harbour" / "3.9.2"
LOG = str(STORY / "__consumer_offsets-9")
WRITERS = {
    "synth": ["synth", "--records", "2000", "--partitions", "2", "--out"],
    "plan": ["rescue", "plan", str(STORY), "--coordinator", "classic", "--out"],
    "report": ["report", LOG, "--out"],
    "compact": ["compact", LOG, "--out"],
    "edit": ["edit", LOG, "--roll", "--out"],
    "parquet": ["load", LOG, "--to"],
}
"""By name: the words of a command that writes an output, without the output."""
UNFINISHED = "unfinished"
FOLDERS = ("synth", "compact", "edit", "parquet")
FULL_DISK = """
import resource, sys
from kafkagroups.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
sys.exit(main(sys.argv[1:]))
"""
"""Runs a command whose files can have 1000 bytes. The error differs from that of a full disk only in its number."""


def words_of(name, out):
    """Return the words of a command that writes `out`."""
    return [*WRITERS[name], f"parquet:{out}" if name == "parquet" else str(out)]


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_a_write_that_fails_leaves_nothing(name, tmp_path):
    """The message is one line that names the output and the reason, and no later command finds something."""
    out = tmp_path / "out"
    done = subprocess.run([sys.executable, "-c", FULL_DISK, *words_of(name, out)], capture_output=True, text=True)
    assert done.returncode in (1, 2) and done.stdout == ""
    assert str(out) in done.stderr and "File too large" in done.stderr and done.stderr.count("\n") == 1
    assert list(tmp_path.rglob("*")) in ([], [out])
    assert main(words_of(name, out)) == 0


@pytest.mark.parametrize("name", WRITERS)
def test_a_second_run_into_the_same_output_is_refused(name, tmp_path, run):
    """While one run writes, or after it was killed, another one is refused with the name of what to delete."""
    out = tmp_path / "out"
    left = out / UNFINISHED if name in FOLDERS else out.with_name(f"out.{UNFINISHED}")
    left.mkdir(parents=True) if name in FOLDERS else left.touch()
    status, _, err = run(*words_of(name, out))
    assert status == 2
    assert err.endswith(f"{out}: another run is writing it, or was killed. If none is running, delete {left}\n")
    left.rmdir() if left.is_dir() else left.unlink()
    assert run(*words_of(name, out))[0] == 0
    assert sorted(path.name for path in tmp_path.rglob(f"*{UNFINISHED}*")) == []


@pytest.mark.slow
def test_a_killed_run_is_not_taken_for_a_whole_topic(tmp_path, run):
    """`synth` is killed between two segments. Later commands say that the folder is not whole."""
    out = tmp_path / "topic"
    words = ["synth", "--records", "3000000", "--partitions", "3", "--segment-bytes", "100000", "--out", str(out)]
    process = subprocess.Popen([sys.executable, "-m", "kafkagroups", *words], stdout=subprocess.DEVNULL)
    while not list(out.rglob("*.log")) and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    for command in ("load", "check", "stats"):
        status, _, err = run(command, out)
        assert status == 2 and f"{out}: not whole, because the run that writes it has not ended, or was killed" in err


def test_of_two_runs_at_the_same_time_one_succeeds(tmp_path):
    """The winner's topic is whole."""

    def write(seed):
        try:
            return synth.write(tmp_path / "topic", 20_000, partitions=2, seed=seed)
        except kg.UsageError as error:
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(write, (1, 2)))
    (won,) = [result for result in results if isinstance(result, dict)]
    (lost,) = [result for result in results if isinstance(result, str)]
    assert "another run is writing it" in lost or "expected a new or empty folder" in lost
    records = sum(part.records for part in kg.load(tmp_path / "topic").partitions.values())
    assert records == 20_000 == sum(counts["records"] for counts in won["partitions"].values())


def test_a_page_replaces_a_page_and_a_link_stays(tmp_path):
    """`report` replaces its own file as a whole. A symbolic link still leads to it."""
    page = tmp_path / "page.html"
    page.write_text("old")
    (tmp_path / "link.html").symlink_to(page)
    kg.report(LOG, tmp_path / "link.html", coordinator="classic")
    assert (tmp_path / "link.html").is_symlink() and page.read_text().startswith("<!DOCTYPE html>")


def test_an_error_of_the_writer_deletes_what_it_wrote(tmp_path, monkeypatch):
    """Any exception leaves an empty folder, or no file."""

    def stop(*arguments):
        assert len(list(tmp_path.rglob("*"))) > 1
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        synth.write(tmp_path / "folder", 2_000, partitions=2, progress=stop)
    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(ValueError, match="stop"):
        kg.report(LOG, tmp_path / "page.html", coordinator="classic")
    assert list(tmp_path.rglob("*")) == [tmp_path / "folder"]
