"""The tools of lesson 12: bars and curves of loading times (with given times), and a topic at an earlier time."""

import configparser
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import course, synth
from kafkagroups.course import load_times

ROOT = Path(__file__).parents[2]


@pytest.fixture
def set_load_seconds(monkeypatch):
    """Return a function that sets how many seconds the next loads take."""

    def set_seconds(*times_taken):
        times = iter([time for seconds in times_taken for time in (0.0, seconds)])
        monkeypatch.setattr(load_times, "perf_counter", lambda: next(times))

    return set_seconds


def sanitize(text):
    """Return what nbval compares: the text after the replacements of tests/sanitize.cfg."""
    rules = configparser.RawConfigParser()
    rules.read(ROOT / "tests" / "sanitize.cfg")
    for name in rules.sections():
        text = re.sub(rules[name]["regex"], rules[name]["replace"], text)
    return text


def test_a_part_is_scaled_to_a_million_and_says_so(set_load_seconds):
    """The shortest of several rounds counts. The loaded result is returned."""
    set_load_seconds(4.0, 3.0, 0.5)
    chart = course.LoadTimes()
    assert chart.measure("whole", lambda: "loaded", rounds=2) == "loaded"
    chart.measure("tenth", lambda: None, records=100_000)
    whole, tenth = chart.format_lines()[1:]
    assert "3.00 s" in whole and "scaled" not in whole
    assert "5.00 s" in tenth and tenth.endswith("scaled from 100,000")
    assert whole.count("█") * 5 == tenth.count("█") * 3


def test_a_second_measurement_replaces_the_first(set_load_seconds):
    """A cell that is run twice adds no second bar."""
    set_load_seconds(4.0, 2.0)
    chart = course.LoadTimes()
    for _ in range(2):
        chart.measure("loop", lambda: None)
    assert [time.seconds for time in chart.times] == [2.0]


def test_two_measurements_are_the_same_to_nbval(set_load_seconds):
    """Bars and times differ in every run. tests/sanitize.cfg removes both from text and HTML."""
    seen = []
    for took in [(0.25, 7.0), (312.5, 0.001)]:
        set_load_seconds(*took)
        chart = course.LoadTimes()
        chart.measure("one", lambda: None)
        chart.measure("two", lambda: None, records=1000)
        seen.append((sanitize(repr(chart)), sanitize(chart._repr_html_())))
    assert seen[0] == seen[1]


def test_a_quoted_bar_says_that_it_is_quoted():
    chart = course.LoadTimes()
    chart.add_benchmark("dump tool", "dump-log")
    assert chart.format_lines()[1].endswith("measured on another machine")
    chart.add_benchmark("nobody", "no such way")
    assert len(chart.times) == 1


def test_curves_are_the_benchmarks_measurements():
    """The text has every measured way of loading. The figure is that of docs/performance.md."""
    text = repr(course.BenchmarkCurves())
    runs = json.loads((ROOT / "benchmarks" / "measured.json").read_text())["runs"]
    ways = {way for run in runs for topic in run["topics"] for way, found in topic["ways"].items() if found["seconds"]}
    assert {line.split()[0] for line in text.splitlines()[1:]} == ways
    assert course.BenchmarkCurves()._repr_html_() == (ROOT / "docs" / "performance.svg").read_text()


def test_a_topic_without_its_newest_segments(tmp_path):
    """Each log ends where its newest segment began."""
    synth.write(tmp_path / "topic", 5000, partitions=3, segment_bytes=20_000)
    before = course.link_older_segments(tmp_path / "topic")
    for log in (tmp_path / "topic").iterdir():
        *_, newest = sorted(int(segment.stem) for segment in log.glob("*.log"))
        assert kg.load(before / log.name).partitions[int(log.name.split("-")[1])].next_offset == newest


@pytest.mark.parametrize("letters", ["XTM", "CXTM", "XCTM", "XTMX"])
def test_every_log_on_which_the_coordinators_disagree_is_correct(letters, capsys):
    """An exercise with many correct answers is checked by loading, not by a list."""
    course.check("counterexample", letters)
    assert capsys.readouterr().out.startswith("✓")


def test_a_straight_line_goes_through_both_its_points():
    line = course.ensure_correct("milliseconds", ...)
    points = [(1, 400), (10, 1300), (100, 10300)]
    for small, large in pairwise(points):
        assert [line(small, large, records) for records, _ in points] == [took for _, took in points]
