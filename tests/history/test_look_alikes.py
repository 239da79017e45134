"""Group ids that look the same but are different."""

import pytest
from msgspec.structs import replace

import kafkagroups as kg
from tests.history.logs import START, commit, find, find_and_check, write_each


def write_groups(folder, *group_ids):
    return write_each(folder, [commit(number, START, group) for number, group in enumerate(group_ids)])


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("shipping\u2011router", r"shipping\N{NON-BREAKING HYPHEN}router"),
        ("shipping\u2013router", r"shipping\N{EN DASH}router"),
        ("shipping\u2212router", r"shipping\N{MINUS SIGN}router"),
        ("shipping-\u200brouter", r"shipping-\N{ZERO WIDTH SPACE}router"),
        ("shipping-router\u00a0", r"shipping-router\N{NO-BREAK SPACE}"),
        ("shipping-router\n", "'shipping-router\n'"),
        ("\uff53hipping-router", r"\N{FULLWIDTH LATIN SMALL LETTER S}hipping-router"),
        ("Shipping-Router", "'Shipping-Router', 'shipping-router'"),
        ("shipping-router ", "'shipping-router', 'shipping-router '"),
    ],
)
def test_an_id_with_other_characters_is_found_with_their_names(other, words, tmp_path):
    """The names of the characters are those of the Unicode standard."""
    path = write_groups(tmp_path, "shipping-router", other, "billing")
    (finding,) = find_and_check(path)
    assert (finding.kind, finding.partition, finding.offset, finding.group) == ("look_alike_groups", 0, None, None)
    assert "shipping-router (partition 0)" in finding.what and f"{other} (partition 0)" in finding.what
    assert words in finding.what
    assert "stop the consumers of the right group" in finding.remedy


def test_ids_in_two_partitions_are_found(tmp_path, run):
    """The two ids have different hash codes, so they are in different partitions: Kafka's partitionFor."""
    ids = ["a-b", "a\u2010b"]
    assert len({*map(kg.partition_for, ids)}) == 2
    for group_id in ids:
        write_each(tmp_path, [commit(0, START, group_id)], kg.partition_for(group_id))
    (finding,) = find_and_check(tmp_path)
    assert (finding.kind, finding.partition) == ("look_alike_groups", None)
    for command in ("stats", "check"):
        assert "Finding 1. The topic: These group ids" in run(command, tmp_path)[1]


@pytest.mark.parametrize(
    ("first", "second"),
    [("shipping-router", "shipping_router"), ("a b", "ab"), ("team1", "teaml"), ("", "\0"), ("\u00e9t\u00e9", "ete")],
)
def test_other_ids_do_not_look_the_same(first, second, tmp_path):
    assert find(write_groups(tmp_path, first, second)) == []


def test_a_deleted_group_is_no_look_alike(tmp_path):
    """An operator has deleted the offset of the wrong group, so that its group is gone."""
    wrong = commit(1, START, "a\u2011b")
    records = [commit(0, START, "a-b"), wrong, replace(wrong, offset=2, value=None)]
    assert find(write_each(tmp_path, records), coordinator="classic") == []
