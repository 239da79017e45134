"""The figure of lesson 02: the cells of the groups before and after the topic was widened, and the answers after it."""

from pathlib import Path

import pytest

from kafkagroups import course, partition_for

SHOP = ("billing", "fraud-check", "shipping", "mailer", "café-☕", "stock-audit", "promo", "dashboard")
NEW = 0
CLASSIC = 1


@pytest.fixture(scope="module")
def figure():
    return course.PartitionGrid(SHOP, SHOP)


def read_words(figure, *options):
    """Return the words for each of the shop's groups."""
    lines = (line.partition(": ") for line in figure.text(*options))
    return {name: words for name, _, words in lines if name in SHOP}


def test_a_group_is_in_the_cell_in_which_a_real_broker_stored_it(figure):
    """The captured 4.3.1 broker wrote the records of each of the shop's groups to this partition."""
    for group, words in read_words(figure, 0, NEW).items():
        number = words.removeprefix("partition ")
        folder = Path(course.find_data("harbour/4.3.1"), f"__consumer_offsets-{number}")
        assert group in {line.group for line in course.read_lines(folder)}


def test_the_new_coordinator_finds_only_what_is_in_the_home_partition(figure):
    """As a 4.3.1 broker answers for a group with records in several partitions (tests/groups/test_load_crafted.py)."""
    for group, words in read_words(figure, 2, NEW).items():
        stays = partition_for(group, 50) == partition_for(group, 60)
        assert words.endswith(": offset 50" if stays else ": nothing")


def test_the_classic_coordinator_finds_the_groups_of_all_its_partitions(figure):
    """GroupMetadataManager of 3.9 has one groupMetadataCache for all partitions."""
    assert all(words.endswith(": offset 50") for words in read_words(figure, 2, CLASSIC).values())


def test_a_group_that_moved_back_finds_its_oldest_copy(figure):
    """shipping: partition 8 of 50, 58 of 60, 8 of 65. Its commit of 60 is in partition 58."""
    assert [partition_for("shipping", count) for count in (50, 60, 65)] == [8, 58, 8]
    words = read_words(figure, 4, NEW)
    assert words["shipping"] == "58 → 8: 50, old"
    assert [group for group in SHOP if words[group].endswith("old")] == ["shipping"]
    assert words["billing"] == "49: offset 60", "49 of 60 and 49 of 65"
    assert words["mailer"] == "12 → 57: nothing"


def test_a_typed_group_is_marked_with_its_cell_under_both_counts(figure):
    content = figure.compute_content(" my-service ")
    homes = [partition_for("my-service", count) for count in (50, 60)]
    assert f"my-service: partition {homes[0]}" in content.scenes[0, NEW].text
    assert f"my-service: {homes[0]} → {homes[1]}" in content.scenes[1, NEW].text
    again = figure.compute_content("billing")
    assert len([line for line in again.scenes[0, NEW].text if line.startswith("billing: ")]) == 1
