"""The tools of lesson 12: bars of loading times, parts of a log, and a topic at an earlier time."""

import json
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import course, synth

ROOT = Path(__file__).parents[2]


def test_a_known_speed_becomes_seconds():
    chart = course.LoadTimes()
    chart.add_speed("a broker", 400_000)
    assert [time.seconds for time in chart.times] == [2.5]
    assert chart.format_lines()[1].endswith("2.50 s   0.4 million records per second")


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


def test_a_log_without_lines_that_count_has_no_offsets():
    assert course.merge_in_random_order([], seed=0) == {}


def test_the_offsets_that_a_broker_answered_are_read():
    """answers.json of the shop: `billing` had committed 50 for orders-0."""
    assert course.read_answered_offsets("harbour/4.3.1")["billing", "orders-0"] == 50


def test_a_described_log_has_the_offsets_of_its_lines():
    assert course.load_described_log(["commit: 7", "commit: 42"], "new") == 42


@pytest.mark.parametrize("line", ["a commit", "commit"])
def test_an_unknown_line_of_a_described_log_is_refused(line):
    with pytest.raises(kg.UsageError, match="unknown record"):
        course.load_described_log([line], "new")
