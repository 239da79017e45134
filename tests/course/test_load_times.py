"""The tools of lesson 12: bars and curves of loading times, parts of a log, and a topic at an earlier time."""

import configparser
import json
import re
from itertools import product
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import course, synth
from kafkagroups.course.figures import load_times
from kafkagroups.course.figures.marks import WIDTH, Box, Label, list_labels, measure_text
from kafkagroups.course.small_logs import load_small_log, write_small_log

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
    assert "3.00 s" in whole and "records" not in whole
    assert "5.00 s" in tenth and tenth.endswith("measured with 100,000 records")
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


def test_a_bar_of_the_benchmark_says_so():
    chart = course.LoadTimes()
    chart.add_benchmark("dump tool", "dump-log")
    assert chart.format_lines()[1].endswith("measured on another machine")
    chart.add_benchmark("nobody", "no such way")
    assert len(chart.times) == 1


def test_a_known_speed_becomes_seconds():
    chart = course.LoadTimes()
    chart.add_speed("a broker", 400_000)
    assert [time.seconds for time in chart.times] == [2.5]
    assert chart.format_lines()[1].endswith("2.50 s   0.4 million records per second")


def test_the_bars_are_drawn_inside_the_picture(set_load_seconds):
    """Each bar has its name and its seconds, and the longest one is not clipped."""
    set_load_seconds(4.0, 1.0)
    chart = course.LoadTimes()
    chart.measure("loop", lambda: None)
    chart.measure("engine", lambda: None, records=100_000)
    marks = chart.draw().marks
    bars = [mark for mark in marks if isinstance(mark, Box)]
    assert [bars[1].width / bar.width for bar in bars] == [2.5, 1]
    labels = [mark for mark in marks if isinstance(mark, Label)]
    assert max(label.x + measure_text(label.text, label.size) for label in labels) <= WIDTH
    assert "loop" in list_labels(marks) and "10.00 s" in list_labels(marks)


def test_the_curves_have_the_benchmarks_measurements():
    """The shortest time of each way, with a name at the end of its curve."""
    runs = json.loads((ROOT / "benchmarks" / "measured.json").read_text())["runs"]
    topics = [topic for run in runs for topic in run["topics"] if topic["records"] == 10_000_000]
    took = min(topics[0]["ways"]["package-1"]["seconds"])
    figure = course.LoadCurves({"broker-4.3.1": "a broker", "package-1": "one thread"})
    assert f"one thread, 10 million records, {took:.2f} s" in figure.text()
    assert {"a broker", "one thread"} <= set(list_labels(figure.first_scene.marks))


def test_a_topic_without_its_newest_segments(tmp_path):
    """Each log ends where its newest segment began."""
    synth.write(tmp_path / "topic", 5000, partitions=3, segment_bytes=20_000)
    before = course.link_older_segments(tmp_path / "topic")
    for log in (tmp_path / "topic").iterdir():
        *_, newest = sorted(int(segment.stem) for segment in log.glob("*.log"))
        assert kg.load(before / log.name).partitions[int(log.name.split("-")[1])].next_offset == newest


STORY = ROOT / "data" / "harbour" / "4.3.1"


def test_parts_of_the_shops_log_give_the_brokers_offsets_in_any_order():
    """A 4.3.1 broker answered these offsets after its load (answers.json)."""
    answers = json.loads((STORY / "answers.json").read_text())["offsets"]
    theirs = {(group, name): found["offset"] for group, offsets in answers.items() for name, found in offsets.items()}
    parts = course.list_part_results(STORY)
    assert all(course.merge_in_random_order(parts, seed) == theirs for seed in range(5))


@pytest.mark.parametrize("letters", ["".join(letters) for letters in product("CXMAT", repeat=3)])
def test_merged_parts_are_what_the_new_coordinator_loads(letters, tmp_path):
    """Commits, a transaction, its markers and tombstones, in every order of three."""
    parts = course.list_part_results(write_small_log(tmp_path / "log", letters))
    merged = course.merge_in_random_order(parts, seed=0)
    assert [merged.get(("g", "t-0"))] == load_small_log(letters, "new", passes=0)


def test_a_log_without_lines_that_count_has_no_offsets():
    assert course.merge_in_random_order([], seed=0) == {}


def test_the_offsets_that_a_broker_answered_are_read():
    """answers.json of the shop: `billing` had committed 50 for orders-0."""
    assert course.read_answered_offsets("harbour/4.3.1")["billing", "orders-0"] == 50


COMMIT = "commit: 100"
IN_TRANSACTION = "commit in a transaction: 101"
MARKER = "marker that commits the transaction"


@pytest.mark.parametrize(
    ("lines", "letters"),
    [
        ([COMMIT, IN_TRANSACTION, "tombstone", MARKER], "CXTM"),
        ([COMMIT, IN_TRANSACTION, MARKER, "tombstone"], "CXMT"),
        ([COMMIT, IN_TRANSACTION], "CX"),
        ([COMMIT, IN_TRANSACTION, MARKER], "CXM"),
    ],
)
@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_a_described_log_loads_like_the_log_of_its_letters(lines, letters, coordinator):
    assert [course.load_described_log(lines, coordinator)] == load_small_log(letters, coordinator, passes=0)


def test_a_described_log_has_the_offsets_of_its_lines():
    assert course.load_described_log(["commit: 7", "commit: 42"], "new") == 42


@pytest.mark.parametrize("line", ["a commit", "commit"])
def test_an_unknown_line_of_a_described_log_is_refused(line):
    with pytest.raises(kg.UsageError, match="unknown record"):
        course.load_described_log([line], "new")
