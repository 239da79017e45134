"""Lesson 10's race and curves, without a watch: times are given."""

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
def watch(monkeypatch):
    """Each load takes the next of these seconds."""

    def given(*took):
        times = iter([time for seconds in took for time in (0.0, seconds)])
        monkeypatch.setattr(load_times, "perf_counter", lambda: next(times))

    return given


def as_nbval_sees(text):
    rules = configparser.RawConfigParser()
    rules.read(ROOT / "tests" / "sanitize.cfg")
    for name in rules.sections():
        text = re.sub(rules[name]["regex"], rules[name]["replace"], text)
    return text


def test_a_part_is_scaled_to_a_million_and_says_so(watch):
    """Of several rounds the least counts; what was loaded is given back."""
    watch(4.0, 3.0, 0.5)
    race = course.LoadTimes()
    assert race.measure("whole", lambda: "loaded", rounds=2) == "loaded"
    race.measure("tenth", lambda: None, records=100_000)
    whole, tenth = race.format_lines()[1:]
    assert "3.00 s" in whole and "scaled" not in whole
    assert "5.00 s" in tenth and tenth.endswith("scaled from 100,000")
    assert whole.count("█") * 5 == tenth.count("█") * 3


def test_who_runs_again_has_one_bar(watch):
    """A cell that is run twice adds nothing."""
    watch(4.0, 2.0)
    race = course.LoadTimes()
    for _ in range(2):
        race.measure("loop", lambda: None)
    assert [time.seconds for time in race.times] == [2.0]


def test_two_races_are_the_same_to_nbval(watch):
    """Bars and times differ at every run; tests/sanitize.cfg takes out both, as text and as HTML."""
    seen = []
    for took in [(0.25, 7.0), (312.5, 0.001)]:
        watch(*took)
        race = course.LoadTimes()
        race.measure("one", lambda: None)
        race.measure("two", lambda: None, records=1000)
        seen.append((as_nbval_sees(repr(race)), as_nbval_sees(race._repr_html_())))
    assert seen[0] == seen[1]


def test_a_quoted_bar_says_that_it_is_quoted():
    race = course.LoadTimes()
    race.add_benchmark("dump tool", "dump-log")
    assert race.format_lines()[1].endswith("quoted, another machine")
    race.add_benchmark("nobody", "no such way")
    assert len(race.times) == 1


def test_curves_are_what_the_benchmark_wrote_down():
    """Every way that has times stands in the text; the figure is that of docs/performance.md."""
    told = repr(course.BenchmarkCurves())
    runs = json.loads((ROOT / "benchmarks" / "measured.json").read_text())["runs"]
    ways = {way for run in runs for topic in run["topics"] for way, found in topic["ways"].items() if found["seconds"]}
    assert {line.split()[0] for line in told.splitlines()[1:]} == ways
    assert course.BenchmarkCurves()._repr_html_() == (ROOT / "docs" / "performance.svg").read_text()


def test_a_topic_without_its_newest_segments(tmp_path):
    """What is left is the same topic earlier: each log ends where its newest segment began."""
    synth.write(tmp_path / "topic", 5000, partitions=3, segment_bytes=20_000)
    before = course.link_older_segments(tmp_path / "topic")
    for log in (tmp_path / "topic").iterdir():
        *_, newest = sorted(int(segment.stem) for segment in log.glob("*.log"))
        assert kg.load(before / log.name).partitions[int(log.name.split("-")[1])].next_offset == newest


@pytest.mark.parametrize("letters", ["XTM", "CXTM", "XCTM", "XTMX"])
def test_every_log_that_tells_the_coordinators_apart_is_right(letters, capsys):
    """An exercise with many answers asks the loaders, not a list."""
    course.check("counterexample", letters)
    assert capsys.readouterr().out.startswith("✓")


def test_a_straight_line_goes_through_both_its_points():
    line = course.ensure_correct("milliseconds", ...)
    points = [(1, 400), (10, 1300), (100, 10300)]
    for small, large in pairwise(points):
        assert [line(small, large, records) for records, _ in points] == [took for _, took in points]
