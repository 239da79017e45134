"""A question opens each segment at most twice: once to load, and once for what only the load can ask."""

import sys
from collections import Counter
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups.loading import native
from kafkagroups.topic import read_topic_table
from tests.captured import captured

OPENED: Counter[str] = Counter()
"""How often each segment was opened. Python reports each opening of a file twice: io.open calls os.open."""


def count_opening(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and arguments[0].endswith(".log"):
        OPENED[arguments[0]] += 1


@pytest.fixture(scope="module", autouse=True)
def hook():
    # A hook of the interpreter stays until its end.
    sys.addaudithook(count_opening)


QUESTIONS = {
    "load": lambda topic, group: topic.load(),
    "stats": lambda topic, group: topic.stats(),
    "stats by type": lambda topic, group: topic.stats("type"),
    "stats by writer": lambda topic, group: topic.stats("writer"),
    "check": lambda topic, group: topic.check(),
    "check --to": lambda topic, group: topic.check(to="4.4.0"),
    "report": lambda topic, group: topic.report(),
    "explain": lambda topic, group: topic.explain(group),
    "timeline": lambda topic, group: topic.timeline(group),
}
LOGS = {
    "healthy": ("data/harbour/3.9.2", "classic", "billing"),
    "new protocols": ("data/harbour/4.3.1", "new", "billing"),
    "pending without end": ("data/crafted/t-idem", "new", "g"),
    "a load that fails": ("data/crafted/f-txn-after", "new", "g"),
    "an open transaction": ("3.9.2-expiry", "classic", "g-pending"),
}


@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize("name", LOGS)
def test_each_segment_is_opened_at_most_twice(name, engine, monkeypatch):
    """Also for a log that fails to load, and for one whose producers are looked up after the load."""
    path, coordinator, group = LOGS[name]
    if not Path(path).exists():
        path = captured("runs") / "runs" / path / "log"
    topic = kg.Topic(path, coordinator, engine=engine)
    by_engine: Counter[str] = Counter()
    read = native.read

    def count_reading(log, *arguments, **options):
        by_engine.update(() if log.content else log.segments)
        return read(log, *arguments, **options)

    monkeypatch.setattr(native, "read", count_reading)
    for question, ask in QUESTIONS.items():
        OPENED.clear()
        by_engine.clear()
        ask(topic, group)
        # `check` also loads copies that passes of the log cleaner leave, in other folders.
        opened = {segment: count // 2 for segment, count in OPENED.items() if Path(segment).is_relative_to(path)}
        counts = Counter(opened) + by_engine
        assert counts and max(counts.values()) <= 2, (question, counts)


@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize("table", ["offsets", "records", "fates"])
def test_a_table_has_found_the_damage(table, engine):
    """Spark asks for the damage of each log whose table it has read; nothing is read a second time for it."""
    topic = kg.Topic("data/harbour/3.9.2", "classic", engine=engine)
    logs = topic.open()
    read_topic_table(logs, table, None).read_all()
    OPENED.clear()
    assert [log.damage for log in logs.logs] == [None] * len(logs.logs)
    assert not OPENED
