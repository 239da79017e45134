"""The tools of lesson 12: bars of loading times, and a topic at an earlier time."""

from pathlib import Path

import kafkagroups as kg
from kafkagroups import course, synth

ROOT = Path(__file__).parents[2]


def test_a_known_speed_becomes_seconds():
    chart = course.LoadTimes()
    chart.add_speed("a broker", 400_000)
    assert [time.seconds for time in chart.times] == [2.5]
    assert repr(chart).splitlines()[1].endswith("2.50 s   0.4 million records per second")


def test_a_topic_without_its_newest_segments(tmp_path):
    """Each log ends where its newest segment began."""
    synth.write(tmp_path / "topic", 5000, partitions=3, segment_bytes=20_000)
    before = course.link_older_segments(tmp_path / "topic")
    for log in (tmp_path / "topic").iterdir():
        *_, newest = sorted(int(segment.stem) for segment in log.glob("*.log"))
        assert kg.load(before / log.name).partitions[int(log.name.split("-")[1])].next_offset == newest
