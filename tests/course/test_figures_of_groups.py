"""The figures of groups and their offsets, compared with what brokers answered and with Kafka's classes."""

import json
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from kafkagroups import course, partition_for
from kafkagroups.course import find_data, read_answers
from tests.course.figures import make_figure

grid = partial(make_figure, "partition-grid")
power_cut = partial(make_figure, "commit-and-power-cut")
failover = partial(make_figure, "failover")
lanes = partial(make_figure, "rebalance-lanes")
expiry = partial(make_figure, "expiry-chart")
epochs = partial(make_figure, "epochs")


# Lesson 02, the grid: the cells of the groups before and after the topic was widened, and the answers after it.

SHOP = ("billing", "fraud-check", "shipping", "mailer", "café-☕", "stock-audit", "promo", "dashboard")
NEW = 0
CLASSIC = 1


def read_groups(*options):
    """Return the words for each of the shop's groups."""
    lines = (line.partition(": ") for line in grid().text(*options, 0))
    return {name: words for name, _, words in lines if name in SHOP}


def test_a_group_is_in_the_cell_in_which_a_real_broker_stored_it():
    """The captured 4.3.1 broker wrote the records of each of the shop's groups to this partition."""
    for group, words in read_groups(0, NEW).items():
        number = words.removeprefix("partition ")
        folder = Path(course.find_data("harbour/4.3.1"), f"__consumer_offsets-{number}")
        assert group in {line.group for line in course.read_lines(folder)}


def test_the_new_coordinator_finds_only_what_is_in_the_home_partition():
    """As a 4.3.1 broker answers for a group with records in several partitions (tests/groups/test_load_crafted.py)."""
    for group, words in read_groups(2, NEW).items():
        stays = partition_for(group, 50) == partition_for(group, 60)
        assert words == ("offset 50" if stays else "nothing")


def test_the_classic_coordinator_finds_the_groups_of_all_its_partitions():
    """GroupMetadataManager of 3.9 has one groupMetadataCache for all partitions."""
    assert set(read_groups(2, CLASSIC).values()) == {"offset 50"}


def test_a_group_that_moved_back_finds_its_oldest_copy():
    """shipping: partition 8 of 50, 58 of 60, 8 of 65. Its commit of 60 is in partition 58."""
    assert [partition_for("shipping", count) for count in (50, 60, 65)] == [8, 58, 8]
    words = read_groups(4, NEW)
    assert words["shipping"] == "old offset 50"
    assert [group for group in SHOP if words[group].startswith("old")] == ["shipping"]
    assert words["billing"] == "offset 60", "49 of 60 and 49 of 65"
    assert words["mailer"] == "nothing", "12 of 60 and 57 of 65"


def test_a_typed_group_is_marked_with_its_cell_under_both_counts():
    content = grid().compute_content(" my-service ")
    homes = [partition_for("my-service", count) for count in (50, 60)]
    assert f"my-service: partition {homes[0]}" in content.scenes[0, NEW, 0].text
    assert f"my-service: {homes[0]} → {homes[1]}" in content.scenes[1, NEW, 0].text
    assert content.controls[2].options[content.controls[2].initial] == "my-service"
    again = grid().compute_content("billing")
    assert len([line for line in again.scenes[0, NEW, 0].text if line.startswith("billing: ")]) == 1


# Lesson 04: where an offset is after each step, and what the next broker answers after a power cut.


def test_each_scene_has_the_places_of_both_coordinators():
    """After the append, a fetch of 4.x reads the snapshot, and one of 3.9 the cache."""
    assert power_cut().text(2, 0)[1:] == [
        *("4.3.1, memory: 6", "4.3.1, snapshot: 5", "4.3.1, log: 5 6", "4.3.1, replica: 5", "4.3.1, answer: waits"),
        *("3.9.2, in flight: 6", "3.9.2, cache: 5", "3.9.2, log: 5 6", "3.9.2, replica: 5", "3.9.2, answer: waits"),
        "a fetch now returns: 5",
    ]


@pytest.mark.parametrize(("step", "answers"), [(0, "55"), (1, "55"), (2, "65"), (3, "66"), (4, "66")])
def test_after_a_power_cut_the_next_broker_may_have_the_newest_record(step, answers):
    """After the append, the record of 6 is in one log for certain. After the confirmation, the replica has it."""
    whole, confirmed = answers
    assert f"after a power cut, with the whole log: {whole}" in power_cut().text(step, 1)
    assert f"after a power cut, with the confirmed records: {confirmed}" in power_cut().text(step, 1)


def test_both_coordinators_leave_the_same():
    """The headline tells one answer, because a crash leaves the log, and the logs are equal."""
    new, classic = power_cut().moments.values()
    for ours, theirs in zip(new, classic, strict=True):
        assert ours.next_with_whole_log == theirs.next_with_whole_log
        assert ours.next_with_confirmed_log == theirs.next_with_confirmed_log


# Lesson 05: the answers of three brokers in a failover.

LEADER_BY_PHASE = {0: 0, 3: 1, 4: 1}


@pytest.fixture(scope="module")
def recorded():
    """What the 4.3.1 broker answered after its restart."""
    return json.loads(Path(find_data("harbour/4.3.1"), "answers.json").read_text(encoding="utf-8"))


def read_answer(phase, broker, question):
    return failover().text(phase, broker + 1, question)[-1].partition("answers: ")[2]


def test_the_leader_answers_what_the_real_broker_answered(recorded):
    """orders-0 of billing, in every phase in which a broker leads the partition."""
    offset = recorded["offsets"]["billing"]["orders-0"]["offset"]
    for phase, leader in LEADER_BY_PHASE.items():
        assert read_answer(phase, leader, 0) == f"offset {offset}"


def test_the_four_answers_are_told_apart(recorded):
    """A follower, a loading leader, an open transaction, and a group without offsets."""
    assert recorded["stable_every_live_partition_named"]["fraud-check"]["orders-0"] == "UNSTABLE_OFFSET_COMMIT"
    assert read_answer(3, 1, 2) == "UNSTABLE_OFFSET_COMMIT"
    assert read_answer(3, 2, 0) == "NOT_COORDINATOR"
    assert read_answer(2, 1, 1) == "COORDINATOR_LOAD_IN_PROGRESS"
    assert read_answer(3, 1, 1) == "offset −1"


def test_no_one_else_answers_with_an_offset():
    """In each phase, only the leader that has loaded the partition answers with an offset."""
    for phase in range(5):
        answering = {b for b in range(3) if read_answer(phase, b, 0).startswith("offset")}
        assert answering == ({LEADER_BY_PHASE[phase]} if phase in LEADER_BY_PHASE else set())


def test_a_client_finds_the_new_leader():
    """The broker that a client asks on its own: it loses its connection, is told to wait, and has its answer again."""
    answers = [failover().text(phase, 0, 0)[-1].partition("answers: ")[2].split()[0] for phase in range(5)]
    assert answers == ["offset", "no", "COORDINATOR_LOAD_IN_PROGRESS", "offset", "offset"]


# Lesson 06, the lanes: sessions, deaths, and what a failover loses.

NO_DEATH, LEADER_AFTER_8, LEADER_AFTER_12, OTHER_AFTER_7, OTHER_AFTER_15 = range(5)


def read_text(event, death, failover=0):
    """Return the lines after an event, counted from 1, by name."""
    lines = (line.partition(": ") for line in lanes().text(event - 1, death, failover))
    return {name: value for name, _, value in lines}


def read_loss(event, death):
    """Return what a failover loses after an event, if the coordinator dies."""
    (line,) = [line for line in lanes().text(event - 1, death, 1) if line.startswith("a failover loses ")]
    return line.removeprefix("a failover loses ")


def find_removal(content, member):
    """Return the first status of a member that was removed. The death is the first option."""
    for event in range(len(content.controls[0].options)):
        for line in content.scenes[event, 0, 0].text:
            if line.startswith(f"{member}: removed"):
                return line
    return None


def test_the_figure_tells_the_lessons_script():
    """The events are those of the lesson. 3.9.2-rebalance, requests 9 to 18: which commits a rebalance refuses."""
    events = course.play_script(course.TWO_CONSUMERS).events
    for number, event in enumerate(events, 1):
        if event.client:
            expected = f"{event.client}: {event.request} → {event.response}"
            assert read_text(number, NO_DEATH)["event"] == expected
        assert read_text(number, NO_DEATH)["state"] == event.state
    assert read_text(8, NO_DEATH)["event"].endswith("→ NONE")
    assert read_text(12, NO_DEATH)["event"].endswith("→ REBALANCE_IN_PROGRESS")


def test_a_dead_leader_is_removed_when_its_session_ends():
    """Its last sign of life is the heartbeat at 10 s, and its session lasts 10 s. The refused commit does not count."""
    assert "removed" not in read_text(14, LEADER_AFTER_12)["billing-1"]
    text = read_text(15, LEADER_AFTER_12)
    assert (text["time"], text["billing-1"]) == ("second 20", "removed at 20 s")
    assert read_text(17, LEADER_AFTER_12)["state"] == "Stable, generation 3, 1 member"


def test_an_accepted_commit_is_a_sign_of_life():
    """The commit at 6 s was accepted, so the session ends at 16 s, and the join phase ends with it."""
    text = read_text(10, LEADER_AFTER_8)
    assert (text["time"], text["billing-1"]) == ("second 16", "removed at 16 s")
    assert text["state"] == "CompletingRebalance, generation 2, 1 member"


def test_the_session_of_a_waiting_member_starts_at_the_end_of_the_join_phase():
    """GroupCoordinator.onCompleteJoin of 3.9 schedules the heartbeat of each member. The join phase ends at 9 s."""
    assert read_text(9, OTHER_AFTER_7)["billing-2"] == "JoinGroup waits"
    assert read_text(10, OTHER_AFTER_7)["time"] == "second 9"
    assert read_text(12, OTHER_AFTER_7)["billing-2"] == "removed at 19 s"


def test_a_rebalance_in_progress_is_lost_and_a_finished_one_is_not():
    """The log has one record for each finished rebalance (GroupMetadataManager.storeGroup)."""
    loaded = "the next coordinator loads"
    for event in (10, 11, 12, 13):
        assert read_text(event, NO_DEATH, 1)[loaded] == "Stable, generation 1: billing-1-1 (leads)"
        assert read_loss(event, NO_DEATH).startswith("generation 2, the rebalance, the member billing-2-2")
    assert read_text(14, NO_DEATH, 1)[loaded].startswith("Stable, generation 2: ")
    assert read_loss(14, NO_DEATH) == "nothing, but every session starts again"


def test_a_member_that_died_comes_back_with_a_failover():
    """The removal is in the log only after the next rebalance has finished."""
    assert read_text(17, OTHER_AFTER_15)["billing-2"] == "removed at 22 s"
    assert "billing-2-2" in read_text(17, OTHER_AFTER_15, 1)["the next coordinator loads"]
    assert read_loss(17, OTHER_AFTER_15).endswith("the removal of billing-2-2")
    assert "billing-2-2" not in read_text(20, OTHER_AFTER_15, 1)["the next coordinator loads"]


def test_each_second_without_a_reader_counts():
    """Nobody reads in the join phases. A partition of a dead member waits for the end of its session, too."""
    waits = [read_text(21, NO_DEATH)[f"orders-{number} had no reader for"] for number in range(3)]
    assert waits == ["8 s", "8 s", "7 s"]
    assert read_text(15, OTHER_AFTER_15)["orders-2 had no reader for"] == "7 s"
    assert read_text(20, OTHER_AFTER_15)["orders-2 had no reader for"] == "21 s"
    line = lanes().content.scenes[19, OTHER_AFTER_15, 0].lines[0]
    assert line.text == "Second 26: billing-1 reads all partitions, after 14 s without a reader"


def test_a_response_comes_from_the_coordinator():
    """The leader's SyncGroup answers both members at once: 3.9's GroupCoordinator.propagateAssignment."""
    marks = lanes().content.scenes[13, NO_DEATH, 0].marks
    sent = {mark.key: (mark.lines, mark.origin) for mark in marks if mark.key.startswith(("request", "answer"))}
    assert list(sent.values()) == [
        (("assign",), "now billing-1"),
        (("orders 0 1",), "now coordinator"),
        (("orders 2",), "now coordinator"),
    ]


def test_what_a_failover_loses_is_folded_until_the_coordinator_dies():
    assert not any("coordinator loads" in line for line in lanes().first_scene.text)


def test_a_typed_death_is_computed():
    """billing-1 at 9: the join phase ended at 7 s. billing-2 at 12: its commit at 12 s is still sent."""
    assert find_removal(lanes().compute_content("billing-1 at 9"), "billing-1") == "billing-1: removed at 17 s"
    assert find_removal(lanes().compute_content(" billing-2  at 12 "), "billing-2") == "billing-2: removed at 22 s"


# Lesson 09: two clocks, and the day on which an offset is deleted.

COMMIT_DAYS = (0, 2, 4)
LEAVES_ON_4, LEAVES_ON_9, STAYS, OTHER_TOPIC, NEVER = range(5)
RETENTIONS = (7, 3)
LAST_STEP = 9


def read_days(commit, members, retention, step=LAST_STEP):
    """Return the days of the deletions in 1.0.1 and since 2.4."""
    lines = expiry().text(step, commit, members, retention)
    return [line.partition(": ")[2] for line in lines if line.startswith("deletion in ")]


@pytest.mark.parametrize(("commit", "retention"), list(product(range(3), range(2))))
def test_before_2_1_the_commit_starts_the_only_clock(commit, retention):
    """1.0.1, GroupMetadata.removeExpiredOffsets: `expireTimestamp < now`, no matter who the members are."""
    for members in range(5):
        day = COMMIT_DAYS[commit] + RETENTIONS[retention]
        assert read_days(commit, members, retention)[0] == f"day {day}"


@pytest.mark.parametrize(("commit", "retention"), list(product(range(3), range(2))))
def test_since_2_4_the_group_decides(commit, retention):
    """KIP-211: Empty groups from the change of state, simple groups and topics without a subscriber from the commit."""
    expected = {
        LEAVES_ON_4: 4 + RETENTIONS[retention],
        LEAVES_ON_9: 9 + RETENTIONS[retention],
        OTHER_TOPIC: COMMIT_DAYS[commit] + RETENTIONS[retention],
        NEVER: COMMIT_DAYS[commit] + RETENTIONS[retention],
    }
    for members, day in expected.items():
        assert read_days(commit, members, retention)[1] == f"day {day}"
    assert "Kafka 2.4+: ✓ the offset exists" in expiry().text(LAST_STEP, commit, STAYS, retention)


def test_a_deletion_is_shown_on_its_day_and_not_before():
    """The first scene asks the prediction of the lesson: commit on day 0, departure on day 4, retention of 7 days."""
    for step, option in enumerate(expiry().content.controls[0].options):
        day = int(option.removeprefix("day "))
        expected = ["day 7"] * (day >= 7) + ["day 11"] * (day >= 11)
        assert read_days(0, LEAVES_ON_4, 0, step) == expected
    assert expiry().first_scene.caption.endswith("On which day is it deleted?")
    assert "11" not in expiry().first_scene.caption


def test_a_clock_counts_the_days():
    """The figure opens on day 5. The group is Empty since day 4."""
    assert {"since the commit: 5 of 7 days", "since Empty: 1 of 7 days"} <= set(expiry().first_scene.text)


# Lesson 13: the epochs of the shop's consumer group, record by record.


def test_the_last_scene_is_what_the_broker_answered_after_its_restart():
    """ConsumerGroupDescribe of the 4.3.1 broker: epochs of the group and of its members."""
    answer = read_answers("harbour/4.3.1")["groups"]["loyalty"]
    last = epochs().text(max(epochs().content.scenes)[0])
    assert f"group epoch: {answer['group_epoch']}" in last
    assert f"assignment epoch: {answer['assignment_epoch']}" in last
    for member in answer["members"]:
        assert f"epoch of {member['client_id']}: {member['epoch']}" in last


def test_a_partition_has_one_owner_in_every_scene():
    """A member receives orders-2 only after the other member has revoked it (run rebalance, 9 to 20)."""
    for scene in epochs().content.scenes.values():
        owned = [line for line in scene.text if " has: " in line or " must revoke: " in line]
        partitions = [line.partition(": ")[2] for line in owned]
        assert len(partitions) == len(set(partitions))


def test_a_target_has_a_ghost_until_its_member_has_the_partition():
    """orders-2 is the target of loyalty-2 from record 10 on, and its own with record 17."""
    ghosts = [
        [mark.key for mark in scene.marks if mark.key.startswith("ghost")] for scene in epochs().content.scenes.values()
    ]
    assert ["ghost loyalty-2 orders-2" in keys for keys in ghosts] == [False] * 8 + [True] * 7 + [False]
    assert ghosts[-1] == []


def test_the_group_epoch_is_never_below_the_assignment_epoch():
    for scene in epochs().content.scenes.values():
        by_name = dict(line.split(": ") for line in scene.text if line.startswith(("group epoch", "assignment epoch")))
        assert int(by_name["group epoch"]) >= int(by_name["assignment epoch"])


def test_a_member_has_no_state_before_its_first_current_assignment():
    """Record 0 is the member (5), and record 4 its current assignment (8). Only type 8 contains a state."""
    assert "state of loyalty-1: no state yet" in epochs().text(1)
    assert "state of loyalty-1: no state yet" in epochs().text(4)
    assert "state of loyalty-1: Stable" in epochs().text(5)
