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
        assert words.endswith(": offset 50" if stays else ": nothing")


def test_the_classic_coordinator_finds_the_groups_of_all_its_partitions():
    """GroupMetadataManager of 3.9 has one groupMetadataCache for all partitions."""
    assert all(words.endswith(": offset 50") for words in read_groups(2, CLASSIC).values())


def test_a_typed_group_is_marked_with_its_cell_under_both_counts():
    content = grid().compute_content(" my-service ")
    homes = [partition_for("my-service", count) for count in (50, 60)]
    assert f"my-service: partition {homes[0]}" in content.scenes[0, NEW, 0].text
    assert f"my-service: {homes[0]} → {homes[1]}" in content.scenes[1, NEW, 0].text
    assert content.controls[2].options[content.controls[2].initial] == "my-service"
    again = grid().compute_content("billing")
    assert len([line for line in again.scenes[0, NEW, 0].text if line.startswith("billing: ")]) == 1


# Lesson 04: where an offset is after each step, and what the next broker answers after a power cut.


def test_both_coordinators_leave_the_same():
    """The scene shows the answers of one next broker only, because a crash leaves the log, and the logs are equal."""
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


def test_no_one_else_answers_with_an_offset():
    """In each phase, only the leader that has loaded the partition answers with an offset."""
    for phase in range(5):
        answering = {b for b in range(3) if read_answer(phase, b, 0).startswith("offset")}
        assert answering == ({LEADER_BY_PHASE[phase]} if phase in LEADER_BY_PHASE else set())


# Lesson 06, the lanes: sessions, deaths, and what a failover loses.


def find_removal(content, member):
    """Return the first status of a member that was removed. The death is the first option."""
    for event in range(len(content.controls[0].options)):
        for line in content.scenes[event, 0, 0].text:
            if line.startswith(f"{member}: removed"):
                return line
    return None


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
    assert "Kafka 2.4+: the offset exists" in expiry().text(LAST_STEP, commit, STAYS, retention)


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
