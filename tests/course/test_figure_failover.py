"""The figure of lesson 05: the answers of three brokers in a failover."""

import json
from pathlib import Path

import pytest

from kafkagroups.course import Failover, find_data

LEADER_BY_PHASE = {0: 0, 3: 1, 4: 1}


@pytest.fixture(scope="module")
def figure():
    return Failover()


@pytest.fixture(scope="module")
def recorded():
    """What the 4.3.1 broker answered after its restart."""
    return json.loads(Path(find_data("harbour/4.3.1"), "answers.json").read_text(encoding="utf-8"))


def read_answer(figure, phase, broker, question):
    return figure.text(phase, broker, question)[-1].partition("answers: ")[2]


def test_the_leader_answers_what_the_real_broker_answered(figure, recorded):
    """orders-0 of billing, in every phase in which a broker leads the partition."""
    offset = recorded["offsets"]["billing"]["orders-0"]["offset"]
    for phase, leader in LEADER_BY_PHASE.items():
        assert read_answer(figure, phase, leader, 0) == f"offset {offset}"


def test_the_four_answers_are_told_apart(figure, recorded):
    """A follower, a loading leader, an open transaction, and a group without offsets."""
    assert recorded["stable_every_live_partition_named"]["fraud-check"]["orders-0"] == "UNSTABLE_OFFSET_COMMIT"
    assert read_answer(figure, 3, 1, 2) == "UNSTABLE_OFFSET_COMMIT"
    assert read_answer(figure, 3, 2, 0) == "NOT_COORDINATOR"
    assert read_answer(figure, 2, 1, 1) == "COORDINATOR_LOAD_IN_PROGRESS"
    assert read_answer(figure, 3, 1, 1) == "offset −1"


def test_no_one_else_answers_with_an_offset(figure):
    """In each phase, only the leader that has loaded the partition answers with an offset."""
    for phase in range(5):
        answering = {b for b in range(3) if read_answer(figure, phase, b, 0).startswith("offset")}
        assert answering == ({LEADER_BY_PHASE[phase]} if phase in LEADER_BY_PHASE else set())
