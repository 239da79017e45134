"""`TopicPartition.parse`: one rule for the text of a topic-partition, wherever a person or a plan gives one."""

import pytest

import kafkagroups as kg


@pytest.mark.parametrize(
    ("text", "topic", "partition"),
    [
        ("orders-0", "orders", 0),
        ("orders-1-7", "orders-1", 7),
        ("foo--1", "foo-", 1),
        ("foo-(-1)", "foo", -1),
        ("foo--(-1)", "foo-", -1),
        ("-0", "", 0),
        ("two\nlines-3", "two\nlines", 3),
        ("t-2147483647", "t", 2**31 - 1),
        ("t-(-2147483648)", "t", -(2**31)),
    ],
)
def test_the_last_dash_that_leaves_a_number_ends_the_topic(text, topic, partition):
    """The text of `as_input` is read back as it was."""
    parsed = kg.TopicPartition.parse(text)
    assert parsed == (topic, partition) and parsed.as_input == text


@pytest.mark.parametrize(
    "text", ["", "orders", "orders-", "orders-x", "orders-01", "orders-+1", "t-2147483648", "t-(-2147483649)", "t-(1)"]
)
def test_what_is_no_topic_partition(text):
    """Leading zeros would give two names to one partition."""
    with pytest.raises(kg.UsageError, match="expected a topic and a partition such as orders-0, found"):
        kg.TopicPartition.parse(text)


def test_a_text_with_two_readings_says_which_one_it_is():
    """`str` of both is `foo--1`, because brokers store both."""
    readings = [(str(each), each.reading) for each in (kg.TopicPartition("foo-", 1), kg.TopicPartition("foo", -1))]
    assert readings == [
        ("foo--1", "partition 1 of the topic foo-; the other reading is written foo-(-1)"),
        ("foo--1", "partition -1 of the topic foo"),
    ]
    assert kg.TopicPartition("foo-", 0).reading is None and kg.TopicPartition("foo", 1).reading is None
