"""The ways without Java on a small topic: all give the same answers, and a failed way stops no other."""

from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.comparisons import BASE, WAYS
from benchmarks.measure import Way, compare
from benchmarks.topics import Spec, generate

pytestmark = [pytest.mark.slow, pytest.mark.engine]
LOADS = [BASE, "package-arrow", "package-python", "naive"]


@pytest.fixture(scope="module")
def topic(tmp_path_factory):
    return generate(tmp_path_factory.mktemp("benchmark") / "topic", Spec(20_000, 1, 100, segment_bytes=300_000))


def pick(*names):
    return {name: WAYS[name] for name in names}


@pytest.mark.thorough
def test_every_way_finds_the_right_answers(topic):
    """Each way runs in each round, and has a row in the table."""
    found = compare(topic, pick(*LOADS, "stats", "explain", "fates", "compact", "process"), 2, 60)
    assert {name: way.get("problem") for name, way in found.items()} == dict.fromkeys(found)
    assert all(len(way["seconds"]) == 2 for way in found.values())
    if Path("/proc/self/status").exists():  # Linux
        assert found[BASE]["peak_bytes"] > 10_000_000
    part = {"part": "small", "records": topic.records, "bytes": topic.bytes, "live": topic.live, "ways": found}
    assert all(WAYS[name].title in report.make_table(part) for name in found)
    assert report.ratio(part, BASE) == 1.0


def test_a_way_that_is_missing_or_fails_is_told_and_the_others_go_on(topic, monkeypatch):
    """A way without its jars, and one that ends its process, have no times."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(topic.folder / "empty"))
    found = compare(topic, {**pick("kafka-classes", BASE), "ends": Way("ends", "", end_process)}, 1, 60)
    assert "no jars" in found["kafka-classes"]["problem"]
    assert found["ends"] == {"seconds": [], "problem": "failed: the process ended"}
    assert len(found[BASE]["seconds"]) == 1


def end_process(topic, scratch):
    raise SystemExit
    yield
