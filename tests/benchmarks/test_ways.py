"""The ways without Java on a small topic: each finds the live offsets, and a failed way stops no other."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from benchmarks import commands, report, runs
from benchmarks.ways import BASE

pytestmark = pytest.mark.slow
PYTHON_WAYS = [BASE, "package-arrow", "package-python", "naive", "kafka-python", "aiokafka", "numpy"]
SPEC = runs.Spec("50 partitions", 20_000, 50, 100)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("topics")


def measured(place, ways, memory=False):
    pytest.importorskip("aiokafka")
    (topic,) = runs.run(place, [runs.Case(way, SPEC) for way in ways], 2, 60, memory)
    return topic


def test_every_way_finds_the_live_offsets_that_were_written(place):
    """Each way has two rounds without a problem; quick ways load three times in the second."""
    topic = measured(place, PYTHON_WAYS, memory=True)
    assert {way: found.get("problem") for way, found in topic["ways"].items()} == dict.fromkeys(PYTHON_WAYS)
    assert all(
        len(found["seconds"]) == 1 + (runs.QUICK_LOADS if found["seconds"][0] < runs.QUICK_SECONDS else 1)
        for found in topic["ways"].values()
    )
    if Path("/proc/self/status").exists():  # Linux
        assert topic["ways"][BASE]["memory"]["own"]["anonymous"] > 10_000_000
    assert len(report.make_rows(topic)) == len(PYTHON_WAYS)


def test_a_way_that_is_missing_or_wrong_is_told_and_the_others_go_on(place, monkeypatch):
    """A way without its jars is left out with the reason; a wrong count has no time."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "empty"))
    topic = measured(place, ["kafka-classes", BASE])
    assert "no jars" in topic["ways"]["kafka-classes"]["problem"]
    assert len(topic["ways"][BASE]["seconds"]) == 1 + runs.QUICK_LOADS

    about = json.loads((place / SPEC.description).read_text())
    (place / SPEC.description).write_text(json.dumps(about | {"live": 1}))
    assert measured(place, ["numpy"])["ways"]["numpy"] == {
        "seconds": [],
        "problem": f"wrong: {about['live']:,} live offsets, not 1",
    }


def test_a_run_below_ten_million_has_a_larger_log_for_spark_and_a_hot_partition():
    """The base loads every topic, and a way loads only the layouts that it supports."""
    cases = runs.plan(1_000_000, (50, 1), ())
    parts = {}
    for case in cases:
        parts.setdefault(case.spec.part, set()).add(case.way)
    assert list(parts) == ["50 partitions", "larger log", "1 partition", "spread", "hot"]
    assert all(BASE in ways for ways in parts.values())
    assert {"package-spark", "udf", "sql"} <= parts["larger log"]
    assert {"broker-3.9.2", "broker-4.3.1", "dump-log"} <= parts["1 partition"]
    assert [case.spec.part for case in runs.plan(10_000_000, (50, 1), ())].count("larger log") == 0


def test_the_ways_of_a_command_give_the_same_answer_or_have_no_times(place, monkeypatch):
    """Without Kafka's jars, its tools are left out with the reason. A wrong answer leaves every way without a time."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "empty"))
    topic = commands.generate_topic(place, 20_000)
    found = commands.measure(topic, 1, 60)
    for command, ways in found.items():
        for name, way in ways.items():
            assert len(way["seconds"]) == (0 if "kafka" in name else 1)
            assert "kafka" not in name or "no jars" in way["problem"]
        assert len(report.make_command_rows({"commands": found}, command)) == len(ways)

    different = commands.CommandWay("another", lambda *_: nullcontext(lambda: commands.Result(1.0, 1.0, 5)))
    monkeypatch.setitem(commands.COMMANDS, "compact", {**commands.COMMANDS["compact"], "other": different})
    wrong = commands.measure(topic, 1, 60)["compact"]["package"]
    assert wrong == {"seconds": [], "cpu_seconds": [], "problem": "wrong: the ways gave different answers"}
