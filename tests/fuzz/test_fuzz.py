"""A coverage-guided fuzzer (atheris, on libFuzzer) finds nothing that breaks a reader: see targets.py.

It starts with captured bytes. The fast profile makes a fixed number of runs from a fixed seed. The long profile runs
ten minutes for the readers, an hour for the native engine and five minutes for the cleaner, each time from another
seed.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.targets import MOST, TARGETS

LONG = os.environ.get("KG_PROFILE") == "long"
RUNS = {"record": 5_000, "embedded": 4_000, "log": 2_000, "followed": 300, "compacted": 1_000}
SECONDS = {"record": 200, "embedded": 200, "log": 200, "followed": 1_800, "compacted": 300}
NAMES = [pytest.param(name, marks=pytest.mark.engine if name == "followed" else ()) for name in TARGETS]


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_every_seed_is_read_or_refused_properly(name):
    """The captured bytes that the fuzzer starts with pass. This needs no fuzzer, so it runs on every machine."""
    target, seeds = TARGETS[name]
    taken = list(seeds())
    assert len(taken) > 100
    for seed in taken:
        target(seed)


@pytest.mark.thorough
@pytest.mark.fuzz
@pytest.mark.parametrize("name", NAMES)
def test_nothing_that_the_fuzzer_tries_breaks_a_reader(name, tmp_path):
    """The fuzzer ends without a find. A find is an exception that the target did not expect, or a crash."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(TARGETS[name][1]()):
        (corpus / str(number)).write_bytes(seed)
    amount = [f"-max_total_time={SECONDS[name]}"] if LONG else [f"-runs={RUNS[name]}", "-seed=1"]
    limits = ["-timeout=20", "-rss_limit_mb=1024", f"-max_len={MOST}", f"-artifact_prefix={tmp_path}/"]
    command = [sys.executable, "-m", "tests.fuzz", name, str(corpus), *amount, *limits]
    env = os.environ | {"PYTHONHASHSEED": "0"}
    root = Path(__file__).parents[2]
    # Without a shell in between, the limit would count the memory of this process too.
    command = ["sh", "-c", '"$@"; exit $?', "sh", *command]
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0 and "Done" in done.stderr, (done.stdout + done.stderr)[-4000:]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.engine
def test_commands_answer_hostile_files_without_a_finding(tmp_path):
    """Thirty random cases run through the command line: commands.py says what a finding is."""
    arguments = ["--seconds", "60", "--count", "30", "--seed", "8", "--findings", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "tests.fuzz.commands", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
