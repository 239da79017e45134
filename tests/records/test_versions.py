"""Which texts name a Kafka version, and which coordinator each version has."""

import pytest

import kafkagroups as kg

DATA = "data/harbour/3.9.2"


@pytest.mark.parametrize(
    "text", ["0.8.2.0", "0.9", "0.9.0.1", "0.10.2", "0.10.2.2", "0.11", "1.0.1", "4.3", "4.4.0", "4.3.9", "4.10.0"]
)
def test_releases_and_feature_releases_are_versions(text):
    assert kg.dialect("new" if text.startswith("4") else "classic", text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "4", "3.9.2foo", "v3.9.2", "4.3.1-rc2", "2.1-IV0", "new", "4.3.", "4.03", " 4.3", "4.3.1\n", "٤.3"),
        *("4.3.07", "3.10", "5", "0.8", "0.8.1", "0.9.1", "0.10", "1.0.1.0", "5.0.0.0", "10000.0"),
    ],
)
def test_any_other_text_is_refused(text):
    with pytest.raises(kg.UsageError, match="is not a Kafka release"):
        kg.dialect("classic", text)


def test_the_preview_of_the_new_coordinator_reads_offset_values_in_records_of_type_0():
    """As 4.0 does. Source: the crafted cases v-key0-oc1 to v-key0-oc4."""
    preview = kg.dialect("new", "3.9.2")
    assert preview.max_type0_value_version == kg.dialect("new", "4.0").max_type0_value_version


def test_the_preview_reads_an_unknown_version_unless_the_value_has_structs_that_check_the_version():
    """Source: the generated `read` of 3.9.2. MemberMetadata and type 8's TopicPartitions check no version.

    Sequence 610921 of tests/releases has a group value of version 5, which 3.9.2's coordinator loads.
    """
    preview = kg.dialect("new", "3.9.2")
    assignment = bytes(16) + b"\x02" + bytes(4) + b"\x00"  # A topic id, and partition 0.
    current = b"\x00\x01" + bytes(9) + b"\x02" + assignment + b"\x01\x00"
    assert kg.decode(b"\x00\x08\x00\x01g\x00\x01m", current, preview).value.assigned_partitions[0].partitions == (0,)
    target = b"\x00\x01\x02" + assignment + b"\x00"
    with pytest.raises(kg.InvalidRecord, match="found 1"):
        kg.decode(b"\x00\x07\x00\x01g\x00\x01m", target, preview)
    assert kg.decode(b"\x00\x07\x00\x01g\x00\x01m", b"\x00\x00" + target[2:], preview)


@pytest.mark.parametrize(
    ("kafka", "coordinator"), [(None, "new"), ("3.9.2", "classic"), ("2.8", "classic"), ("4.0", "new")]
)
def test_the_version_decides_on_the_coordinator_as_on_the_command_line(kafka, coordinator):
    """Brokers are classic below 4.0 unless group.coordinator.new.enable is set (GroupCoordinatorConfig, 3.9)."""
    assert kg.dialect(kafka=kafka).coordinator == coordinator
    assert kg.load(DATA, kafka=kafka).coordinator == kg.check(DATA, kafka=kafka).to_json()["coordinator"] == coordinator


@pytest.mark.parametrize(
    ("coordinator", "kafka"), [("new", "3.6.2"), ("classic", "4.0"), ("classic", "4.3.1"), ("new", "2.8.2")]
)
def test_a_coordinator_that_the_version_does_not_have_is_refused(coordinator, kafka):
    for call in (
        lambda: kg.dialect(coordinator, kafka),
        lambda: kg.load(DATA, coordinator, kafka),
        lambda: kg.stats(DATA, coordinator=coordinator, kafka=kafka),
        lambda: kg.explain(DATA, "billing", coordinator=coordinator, kafka=kafka),
        lambda: kg.timeline(DATA, "billing", coordinator=coordinator, kafka=kafka),
    ):
        with pytest.raises(kg.UsageError, match=f"{kafka}"):
            call()
