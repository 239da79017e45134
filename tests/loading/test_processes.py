"""The readable engine in several processes: the same shards as in one, and every way out ends the workers."""

import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import KafkagroupsError, dialect
from kafkagroups.groups.replay import fold, ignore_bytes
from kafkagroups.loading import load as processes
from kafkagroups.loading.load import PYTHON
from kafkagroups.log.folders import open_logs
from kafkagroups.log.segment_file import MissingSegment
from kafkagroups.log.segments import NO_STOP, Stop
from tests.captured import captured
from tests.cases import case, first_quickly
from tests.engine.random_logs import random_log
from tests.handmade import log_of_buffers

ROOT = Path(__file__).parents[2]
TOPIC = ROOT / "data/harbour/3.9.2"
NEW = dialect("new", None)
WORKER = """
import os, sys, time
sys.path[:] = sys.argv[2:]
from kafkagroups.loading import load as processes
fold = processes.fold
def fold_first(log, *args, count_bytes):
    if log.segments[0].endswith("-0/00000000000000000000.log"):
        return fold(log, *args, count_bytes=count_bytes)
    {action}
processes.fold = fold_first
processes.work(int(sys.argv[1]))
"""
"""A worker that folds partition 0, and does something else with every other partition."""
STUCK = WORKER.format(
    action="""print('folding', file=sys.stderr, flush=True)
    while True:
        count_bytes(2**20)
        time.sleep(0.1)"""
)
KILLED = WORKER.format(action="os.kill(os.getpid(), 9)")
STUCK_COMMAND = f"""
import os, sys
from kafkagroups.cli import main
from kafkagroups.loading import load as processes
os.cpu_count = lambda: 2
processes.MIN_SIZE = 0
processes._START = {STUCK!r}
sys.exit(main(["load", sys.argv[1], "--engine", "python"]))
"""


@pytest.fixture
def topic(tmp_path):
    """Return a folder with four partitions; the logs of 0 to 3 are the same."""
    for partition in range(4):
        shutil.copytree(TOPIC / "__consumer_offsets-9", tmp_path / f"__consumer_offsets-{partition}")
    return tmp_path


@pytest.fixture
def started(monkeypatch):
    """Return the list of the processes that this test starts."""
    workers = []

    class Noted(processes._Worker):
        def __init__(self):
            super().__init__()
            workers.append(self)

    monkeypatch.setattr(processes, "_Worker", Noted)
    return workers


@pytest.fixture
def fold_in_processes(monkeypatch):
    """Return a function that folds logs in two processes, however small they are."""
    monkeypatch.setattr(processes, "MIN_SIZE", 0)
    return partial(PYTHON.fold_logs, threads=2)


def facts(shard, log):
    """Return everything in a shard, and what `fold` has set on its log, as text: the order of mappings counts."""
    others = {name: value for name, value in vars(shard).items() if name not in ("offsets", "failure")}
    if "removed_offsets" in others:
        others["removed_offsets"] = sorted(others["removed_offsets"])
    offsets = shard.offsets
    failure = (type(shard.failure), str(shard.failure), vars(shard.failure) if shard.failure else None)
    producers = sorted(offsets.producers_by_group_partition.items())
    return repr((others, offsets.committed, offsets.pending, producers, failure, log.damage, log.gaps, log.zeros))


def captured_logs(family):
    return [log for folder in sorted({f.parent for f in captured(family).rglob("*.log")}) for log in open_logs(folder)]


def random_logs(damaged_byte=None):
    """Return 40 logs in memory. A byte of each can be damaged."""
    logs = []
    for seed in range(40):
        data = bytearray(random_log(seed))
        if damaged_byte is not None and len(data) > damaged_byte:
            data[damaged_byte] ^= 1
        logs.append(log_of_buffers({"s.log": memoryview(data)}, seed))
    return logs


SOURCES = {
    "crafted": lambda: captured_logs("crafted")[::3],
    "releases": lambda: captured_logs("releases")[::12],
    "in memory": random_logs,
    "past damage": lambda: [log.skip_damage() for log in random_logs(damaged_byte=500)],
}


@pytest.mark.slow
@pytest.mark.parametrize("source", first_quickly(SOURCES))
def test_the_shards_are_those_of_one_process(source, fold_in_processes):
    """Offsets, groups, failures, damage, gaps and zeros are equal, and all mappings have the same order.

    The same holds for logs that are not read to their end.
    """
    for coordinator, kafka, stop in (
        ("classic", "3.9.2", NO_STOP),
        ("new", "4.3.1", NO_STOP),
        ("new", "4.3.1", Stop(until_offset=20)),
        ("classic", "0.9.0.1", NO_STOP),
    ):
        rules = dialect(coordinator, kafka)
        alone = SOURCES[source]()
        logs = SOURCES[source]()
        shards = fold_in_processes(logs, rules, stop)
        for log, shard, log_alone in zip(logs, shards, alone, strict=True):
            with case((log.path, log.partition, kafka)):
                assert facts(shard, log) == facts(fold(log_alone, rules, stop), log_alone)


def test_those_logs_contain_what_crosses_between_processes():
    """The logs that are compared have failed loads, damage, gaps, zeros, pending offsets and removed offsets."""
    seen = set()
    for make_logs in SOURCES.values():
        for log in make_logs():
            for rules in (NEW, dialect("classic", "0.9.0.1")):
                shard = fold(log, rules)
                facts = {**vars(shard), **vars(shard.loaded), **vars(shard.offsets)}
                seen |= {name for name, value in facts.items() if value}
    assert seen >= {"failure", "damage", "gaps", "zeros", "pending", "removed_offsets", "removed_groups", "committed"}


def test_a_load_uses_processes_only_for_large_logs(topic, started, monkeypatch):
    """Below MIN_SIZE, and with one thread, a load starts no process; the answer is the same."""
    wanted = kg.load(topic, engine="python", threads=2)
    assert not started
    monkeypatch.setattr(processes, "MIN_SIZE", 0)
    assert kg.load(topic, engine="python", threads=1) == wanted and not started
    assert kg.load(topic, engine="python", threads=3) == wanted and len(started) == 3


def test_progress_counts_every_byte(topic, fold_in_processes):
    """The workers report all bytes of all logs."""
    logs = open_logs(topic)
    counts = []
    list(fold_in_processes(logs, NEW, NO_STOP, count_bytes=counts.append))
    assert sum(counts) == sum(log.size for log in logs)


def test_an_error_in_a_worker_is_raised_unchanged(topic):
    """A segment that was deleted after its folder was listed is the error that it is in one process."""
    logs = open_logs(topic)
    os.remove(logs[2].segments[0])
    with pytest.raises(MissingSegment) as wanted:
        fold(logs[2], NEW)
    with processes.start_workers(1) as fold_in_worker, pytest.raises(MissingSegment) as found:
        fold_in_worker(logs[2], NEW, NO_STOP, count_bytes=ignore_bytes)
    assert vars(found.value) == vars(wanted.value)


def test_a_progress_function_that_fails_ends_the_load(topic, started, fold_in_processes):
    """Its error is raised, and no worker stays."""

    def fail(count):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(fold_in_processes(open_logs(topic), NEW, NO_STOP, count_bytes=fail))
    assert [worker.process.returncode for worker in started] == [-signal.SIGKILL] * 2


def test_without_processes_the_logs_are_folded_here(topic, started, monkeypatch, fold_in_processes):
    """An embedded Python has no executable, so it cannot start workers."""
    monkeypatch.setattr(sys, "executable", "")
    assert [shard.partition for shard in fold_in_processes(open_logs(topic), NEW, NO_STOP)] == [0, 1, 2, 3]
    assert not started


UNGUARDED = """
import resource
import kafkagroups as kg
from kafkagroups.loading import load as processes
processes.MIN_SIZE = 0
print(len(kg.load({topic!r}, "classic", engine="python", threads=2)))
assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime > 0
"""


@pytest.mark.parametrize("form", ["script", "stdin"])
def test_a_script_needs_no_main_guard(tmp_path, form):
    """A script is not run again by the workers, and there need not be one, as in a notebook."""
    code = UNGUARDED.format(topic=str(TOPIC))
    script = tmp_path / "script.py"
    script.write_text(code)
    command = [sys.executable, str(script) if form == "script" else "-"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, input=code, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == (f"{len(kg.load(TOPIC, 'classic', engine='python'))}\n", "")


def test_a_killed_worker_is_one_clear_error(topic, monkeypatch, started, run, fold_in_processes):
    """The line names the log and the way on, and the exit code is 1; shards before it were still yielded."""
    monkeypatch.setattr(processes, "MIN_SIZE", 0)
    monkeypatch.setattr(processes, "_START", KILLED)
    shards = fold_in_processes(open_logs(topic), NEW, NO_STOP)
    assert next(shards).partition == 0
    with pytest.raises(KafkagroupsError, match=r"offsets-1: the process .* killed by signal 9"):
        next(shards)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    status, out, err = run("load", topic, "--engine", "python")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"kafkagroups: {topic}/__consumer_offsets-1: the process that read this log was killed")
    assert "threads=1" in err
    assert all(worker.process.returncode is not None for worker in started)


def test_closing_early_ends_the_workers(topic, monkeypatch, started, fold_in_processes):
    """A consumer that stops does not wait for the logs that are being folded."""
    monkeypatch.setattr(processes, "_START", STUCK)
    shards = fold_in_processes(open_logs(topic), NEW, NO_STOP)
    assert next(shards).partition == 0
    before = time.monotonic()
    shards.close()
    assert time.monotonic() - before < 60
    assert [worker.process.returncode for worker in started] == [-signal.SIGKILL] * 2


@pytest.fixture
def stuck_command(topic):
    """Return a command whose two workers are in the middle of a log. Its process group has only itself."""
    command = [sys.executable, "-c", STUCK_COMMAND, str(topic)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    assert [process.stderr.readline() for _ in range(2)] == ["folding\n"] * 2
    return process


def test_ctrl_c_ends_the_command_and_its_workers(stuck_command):
    """A terminal sends Ctrl-C to the group of the command, which answers in one line, the workers not at all."""
    os.killpg(stuck_command.pid, signal.SIGINT)
    # The output ends when the last process that could write it has ended.
    out, err = stuck_command.communicate(timeout=60)
    assert (stuck_command.returncode, out, err) == (130, "", "kafkagroups: interrupted\n")


def test_workers_end_with_a_killed_parent(stuck_command):
    """A worker sees in the middle of a log that its parent is gone, and ends without a message."""
    stuck_command.kill()
    assert stuck_command.communicate(timeout=60) == ("", "")
