"""The figure of lesson 06: sessions, deaths, and what a failover loses."""

import pytest

from kafkagroups import course
from kafkagroups.course import RebalanceLanes

NO_DEATH, LEADER_AFTER_8, LEADER_AFTER_12, OTHER_AFTER_7, OTHER_AFTER_15 = range(5)


@pytest.fixture(scope="module")
def figure():
    return RebalanceLanes()


def read_text(figure, event, death):
    """Return the lines after an event, counted from 1, by name."""
    lines = (line.partition(": ") for line in figure.text(event - 1, death))
    return {name: value for name, _, value in lines}


def find_removal(content, member):
    """Return the first status of a member that was removed. The death is the first option."""
    for event in range(len(content.controls[0].options)):
        for line in content.scenes[event, 0].text:
            if line.startswith(f"{member}: removed"):
                return line
    return None


def test_the_figure_tells_the_lessons_script(figure):
    """The events are those of the lesson. 3.9.2-rebalance, requests 9 to 18: which commits a rebalance refuses."""
    events = course.play_script(course.TWO_CONSUMERS).events
    for number, event in enumerate(events, 1):
        if event.client:
            expected = f"{event.client}: {event.request} → {event.response}"
            assert read_text(figure, number, NO_DEATH)["event"] == expected
        assert read_text(figure, number, NO_DEATH)["state"] == event.state
    assert read_text(figure, 8, NO_DEATH)["event"].endswith("→ NONE")
    assert read_text(figure, 12, NO_DEATH)["event"].endswith("→ REBALANCE_IN_PROGRESS")


def test_a_dead_leader_is_removed_when_its_session_ends(figure):
    """Its last sign of life is the heartbeat at 10 s, and its session lasts 10 s. The refused commit does not count."""
    assert "removed" not in read_text(figure, 14, LEADER_AFTER_12)["billing-1"]
    text = read_text(figure, 15, LEADER_AFTER_12)
    assert (text["time"], text["billing-1"]) == ("20 s", "removed at 20 s")
    assert read_text(figure, 17, LEADER_AFTER_12)["state"] == "Stable, generation 3, 1 member"


def test_an_accepted_commit_is_a_sign_of_life(figure):
    """The commit at 6 s was accepted, so the session ends at 16 s, and the join phase ends with it."""
    text = read_text(figure, 10, LEADER_AFTER_8)
    assert (text["time"], text["billing-1"]) == ("16 s", "removed at 16 s")
    assert text["state"] == "CompletingRebalance, generation 2, 1 member"


def test_the_session_of_a_waiting_member_starts_at_the_end_of_the_join_phase(figure):
    """GroupCoordinator.onCompleteJoin of 3.9 schedules the heartbeat of each member. The join phase ends at 9 s."""
    assert read_text(figure, 9, OTHER_AFTER_7)["billing-2"] == "JoinGroup waits"
    assert read_text(figure, 10, OTHER_AFTER_7)["time"] == "9 s"
    assert read_text(figure, 12, OTHER_AFTER_7)["billing-2"] == "removed at 19 s"


def test_a_rebalance_in_progress_is_lost_and_a_finished_one_is_not(figure):
    """The log has one record for each finished rebalance (GroupMetadataManager.storeGroup)."""
    loaded = "the next coordinator loads"
    for event in (10, 11, 12, 13):
        text = figure.text(event - 1, NO_DEATH)
        assert read_text(figure, event, NO_DEATH)[loaded] == "Stable, generation 1: billing-1-1 (leads)"
        assert text[-1].startswith("a failover loses generation 2, the rebalance, the member billing-2-2")
    assert read_text(figure, 14, NO_DEATH)[loaded].startswith("Stable, generation 2: ")
    assert figure.text(13, NO_DEATH)[-1] == "a failover loses nothing, but every session starts again"


def test_a_member_that_died_comes_back_with_a_failover(figure):
    """The removal is in the log only after the next rebalance has finished."""
    text = figure.text(16, OTHER_AFTER_15)
    assert "billing-2: removed at 22 s" in text
    assert "billing-2-2" in read_text(figure, 17, OTHER_AFTER_15)["the next coordinator loads"]
    assert text[-1].endswith("the removal of billing-2-2")
    assert "billing-2-2" not in read_text(figure, 20, OTHER_AFTER_15)["the next coordinator loads"]


def test_a_typed_death_is_computed(figure):
    """billing-1 at 9: the join phase ended at 7 s. billing-2 at 12: its commit at 12 s is still sent."""
    assert find_removal(figure.compute_content("billing-1 at 9"), "billing-1") == "billing-1: removed at 17 s"
    assert find_removal(figure.compute_content(" billing-2  at 12 "), "billing-2") == "billing-2: removed at 22 s"
