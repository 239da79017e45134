"""The file of a rescue plan: it is read strictly, and an error is one line with the place of the first error."""

import json

import pytest

import kafkagroups as kg
from kafkagroups import UsageError
from kafkagroups.repair.plan import parse_plan, read_plan, write_plan

SMALLEST = {
    "kafkagroups_plan": 1,
    "coordinator": "classic",
    "kafka": "3.9.2",
    "groups": {"g": {"to": "g", "offsets": {"orders-0": {"offset": 42}}}},
}


def changed(path, value):
    """The smallest plan, as JSON, with another value at a path."""
    plan = json.loads(json.dumps(SMALLEST))
    place = plan
    for name in path[:-1]:
        place = place[name]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(plan).encode()


def test_a_plan_comes_back_from_its_file(tmp_path):
    """Names of any language, emoji and empty metadata survive."""
    plan = kg.plan_rescue("data/harbour/4.3.1")
    write_plan(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan
    assert (tmp_path / "plan.json").read_bytes().isascii()


@pytest.mark.parametrize("partition", [kg.TopicPartition("foo-", 1), kg.TopicPartition("foo", -1)])
def test_a_partition_with_two_readings_comes_back(partition, tmp_path):
    """A negative partition stands as `foo-(-1)`, so that it is not read as the topic `foo-`."""
    commit = f"billing:{partition.as_input}=5"
    kg.append("data/harbour/3.9.2/__consumer_offsets-9", tmp_path / "log", commit=commit)
    plan = kg.plan_rescue(tmp_path / "log", "classic")
    assert plan.groups["billing"].offsets[partition].offset == 5
    assert parse_plan(json.dumps(plan.to_json()).encode()) == plan


def test_fields_that_only_inform_can_be_missing():
    """A plan that a person writes by hand needs only group ids and offsets."""
    (offset,) = parse_plan(json.dumps(SMALLEST).encode()).groups["g"].offsets.values()
    assert (offset.offset, offset.metadata, offset.leader_epoch) == (42, "", -1)


def test_a_file_is_never_overwritten(tmp_path):
    """An existing file, and a link to nowhere, stay as they are."""
    (tmp_path / "plan.json").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("plan.json", "link"):
        with pytest.raises(UsageError, match="never overwrites a file"):
            write_plan(kg.plan_rescue("data/harbour/3.9.2", "classic"), tmp_path / name)
    assert (tmp_path / "plan.json").read_text() == "mine" and not (tmp_path / "nowhere").exists()


ORDERS = ("groups", "g", "offsets", "orders-0")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("kafkagroups_plan",), 2, "kafkagroups_plan: Invalid enum value 2"),
        (("kafkagroups_plan",), True, "kafkagroups_plan: Expected `int`, got `bool`"),
        (("kafkagroups_plan",), ..., "Object missing required field `kafkagroups_plan`"),
        (("comment",), "x", "Object contains unknown field `comment`"),
        (("groups",), [], "groups: Expected `object`, got `array`"),
        (("groups", "g", "offset"), {}, "groups['g']: Object contains unknown field `offset`"),
        (("groups", "g", "to"), None, "groups['g'].to: Expected `str`, got `null`"),
        (("groups", "g", "to"), "x" * 40_000, "expected at most 32767 bytes, found 40000"),
        (("groups", "g", "to"), "\ud800", "expected text that UTF-8 can encode"),
        (("groups", "g", "offsets"), ..., "groups['g']: Object missing required field `offsets`"),
        ((*ORDERS, "offset"), "42", "groups['g'].offsets['orders-0'].offset: Expected `int`, got `str`"),
        ((*ORDERS, "offset"), 4.5, "Expected `int`, got `float`"),
        ((*ORDERS, "offset"), True, "Expected `int`, got `bool`"),
        ((*ORDERS, "offset"), 2**63, "offset: Expected `int` <= 9223372036854775807"),
        ((*ORDERS, "ofset"), 1, "groups['g'].offsets['orders-0']: Object contains unknown field `ofset`"),
        ((*ORDERS, "metadata"), 1, "metadata: Expected `str`, got `int`"),
        (("groups", "g", "offsets", "orders"), {"offset": 1}, "expected a topic and a partition such as orders-0"),
        (("groups", "g", "offsets", "orders-01"), {"offset": 1}, "found 'orders-01'"),
        (("groups", "g", "offsets", "orders-2147483648"), {"offset": 1}, "found 'orders-2147483648'"),
        (("groups", "g", "why"), "lost", "groups['g'].why: Invalid enum value 'lost'"),
        (("groups", "g", "left_out"), {"orders-0": {"why": "lost"}}, "why: Invalid enum value 'lost'"),
    ],
)
def test_a_malformed_plan(path, value, message):
    """A wrong field, wherever it is, is one line with its place."""
    with pytest.raises(UsageError) as error:
        parse_plan(changed(path, value))
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected JSON in UTF-8"),
        (b"\xff", "expected JSON in UTF-8"),
        (b"[1]", "Expected `object`, got `array`"),
        (b"[" * 100_000, "expected JSON with few levels"),
        (b'{"groups":{},"groups":{}}', "the field 'groups' occurs twice"),
        (b'{"kafkagroups_plan":NaN}', "kafkagroups_plan: Expected `int`, got `float`"),
    ],
)
def test_what_is_no_plan(data, message):
    """Damage, an empty file, and a field that occurs twice."""
    with pytest.raises(UsageError, match=message):
        parse_plan(data)


def test_files_that_cannot_be_read(tmp_path):
    """No such file, and a folder."""
    with pytest.raises(UsageError, match="No such file"):
        read_plan(tmp_path / "nothing.json")
    with pytest.raises(UsageError, match="expected a regular file, found a folder"):
        read_plan(tmp_path)
