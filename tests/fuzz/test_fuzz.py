"""A coverage-guided fuzzer (atheris, on libFuzzer) finds nothing that breaks a reader: see targets.py.

It begins with captured bytes. The fast profile makes a fixed number of runs from a fixed seed; the long profile runs
ten minutes for the readers, ten for the compiled engine, and begins elsewhere each time.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.targets import MOST, TARGETS

LONG = os.environ.get("KG_PROFILE") == "long"
RUNS = {"record": 15_000, "embedded": 10_000, "log": 6_000, "compiled": 4_000}
SECONDS = {"record": 200, "embedded": 200, "log": 200, "compiled": 600}


@pytest.mark.parametrize("name", TARGETS)
def test_every_seed_is_read_as_it_should_be(name):
    """What the fuzzer begins with, without it: so this runs on every machine."""
    target, seeds = TARGETS[name]
    taken = list(seeds())
    assert len(taken) > 100
    for seed in taken:
        target(seed)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_that_the_fuzzer_tries_breaks_a_reader(name, tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(TARGETS[name][1]()):
        (corpus / str(number)).write_bytes(seed)
    amount = [f"-max_total_time={SECONDS[name]}"] if LONG else [f"-runs={RUNS[name]}", "-seed=1"]
    limits = ["-timeout=20", "-rss_limit_mb=1024", f"-max_len={MOST}", f"-artifact_prefix={tmp_path}/"]
    command = [sys.executable, "-m", "tests.fuzz", name, str(corpus), *amount, *limits]
    env = os.environ | {"PYTHONHASHSEED": "0"}
    root = Path(__file__).parents[2]
    command = ["sh", "-c", '"$@"; exit $?', "sh", *command]  # else the most memory that this process ever had counts
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0 and "Done" in done.stderr, (done.stdout + done.stderr)[-4000:]
