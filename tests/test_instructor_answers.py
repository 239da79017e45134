"""docs/instructor/lessons: right answers of diagnostic questions are what the package computes.

The package itself is compared with real brokers in the tests of each rule.
"""

import re
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import course
from kafkagroups.coordinator import OffsetCommit, TopicPartition
from kafkagroups.course.small_logs import SmallRecord, write_small_log
from kafkagroups.records.serde import ControlType

GUIDES = Path(__file__).parents[1] / "docs" / "instructor" / "lessons"
ORDERS_0 = TopicPartition("orders", 0)


def read_right_answer(lesson: str, number: int) -> str:
    """Return the right answer of a question, which is in a row with a bold letter."""
    text = (GUIDES / f"{lesson}.md").read_text(encoding="utf-8")
    [question] = re.findall(rf"^## Question {number}:.*?(?=^## )", text, re.MULTILINE | re.DOTALL)
    [answer] = re.findall(r"^\| \*\*[A-D]\*\* \| (.*?) \| right \|", question, re.MULTILINE)
    return answer


def load_offset(folder: Path, log: list[SmallRecord], coordinator: str) -> str:
    write_small_log(folder, (record.encode() for record in log))
    return str(kg.load(folder, coordinator)["shop"].offsets[TopicPartition("t", 0)].offset)


@pytest.fixture(autouse=True)
def _folder(monkeypatch):
    monkeypatch.chdir(GUIDES.parents[2])


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_lesson_01_the_newest_value(coordinator, tmp_path):
    log = [SmallRecord("t", offset) for offset in (40, 50, 45)]
    assert load_offset(tmp_path, log, coordinator) == read_right_answer("01", 1)


def test_lesson_05_an_unknown_group():
    broker = course.start_broker(course.find_data("harbour/3.9.2"))
    missing = TopicPartition("orders", 9)
    assert broker.offset_fetch("billing", [missing]).value.offsets[missing].offset == -1
    found = broker.offset_fetch("biling", [ORDERS_0]).value.offsets[ORDERS_0]
    assert (found.offset, found.error.name) == (-1, "NONE")
    assert read_right_answer("05", 1) == "−1, without an error"


def test_lesson_07_the_late_commit_and_the_reset():
    life = course.run_silent_member()
    life.commit("billing-2", {"orders-2": 20})
    assert f"`{life.events[-1].response}`" == read_right_answer("07", 1)
    broker = course.start_broker(course.find_data("harbour/3.9.2"))
    simple = broker.offset_commit("billing", {ORDERS_0: OffsetCommit(5)}).value[ORDERS_0]
    assert simple.name != "NONE"
    assert read_right_answer("07", 2) == "It is refused until the group has no members"


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_lesson_08_a_plain_commit_during_a_transaction(coordinator, tmp_path):
    log = [SmallRecord("t", 7, producer=1), SmallRecord("t", 6), SmallRecord(producer=1, ends=ControlType.COMMIT)]
    assert load_offset(tmp_path, log, coordinator) == read_right_answer("08", 1)


def test_lesson_09_the_day_and_the_tombstones():
    day = course.find_deletion_day("3.9.2", commit_day=0, leaves_on=10, retention=7)
    assert read_right_answer("09", 1) == f"Day {day}"
    lines = course.read_lines(course.find_data("harbour/4.3.1/__consumer_offsets-12"))
    tombstones = [line for line in lines if line.value is None]
    assert len(tombstones) == 4
    assert "four tombstones" in read_right_answer("09", 2)


def test_lesson_11_the_members_of_the_last_finished_rebalance():
    before = course.read_answers("harbour/4.3.1", "before.json")["groups"]["billing"]["members"]
    loaded = kg.load(course.find_data("harbour/4.3.1"), coordinator="new")["billing"].members
    assert (len(before), len(loaded)) == (3, 2)
    assert read_right_answer("11", 1) == "The first two"


def test_lesson_13_the_first_assignment():
    key, value = course.read_record(course.find_data("harbour/4.3.1/__consumer_offsets-24"), 13)
    assert read_right_answer("13", 1) == str(len(kg.decode(key, value).value.assigned_partitions))
