"""Which value version a Kafka version writes, and which versions can have written a record."""

import json
import re

import pytest

import kafkagroups as kg
from kafkagroups import value_version
from kafkagroups.records.written_versions import describe_writers, parse_writer, writers_of
from tests.captured import captured
from tests.cases import case

TABLE = json.loads((captured("records") / "writer_versions.json").read_text())
WRITERS = TABLE["summary"]
RUNS = sorted(path for path in (captured("runs") / "runs").iterdir())


def kafkas(condition, version):
    """Return the versions that a summary names: the broker's own version, or versions that it can write as."""
    if condition == "any":
        return [version]
    if "short" in condition or "argument" in condition:  # 0.10.2.2 and 1.0.1 pass the value version itself
        return ["0.10.0"] if condition.endswith("0") else ["0.10.1", version]
    ends = [re.sub(r"(KAFKA|IBP)_", "", end).replace("_", ".").replace(".IV", "-IV") for end in condition.split(" .. ")]
    return [end if end == "2.1-IV0" else end.partition("-")[0] for end in ends]


def test_a_version_is_written_by_the_kafkas_whose_writers_wrote_it():
    """Every row of writer_versions.json's summary."""
    for version, kinds in WRITERS.items():
        for what, versions in kinds.items():
            for written, condition in versions.items():
                with case(f"{version}, {what}, value version {written}, {condition}"):
                    check_writer(version, what, written, condition)


def check_writer(version, what, written, condition):
    kind = 2 if what == "GroupMetadata" else 1
    if version == "0.8.2.2":
        kind = 0
    for kafka in kafkas(condition, version):
        if kafka.startswith("0.8") and kind:
            continue  # A newer broker that is set to 0.8 still has no key type 0.
        expires = what.endswith("expireTimestamp set")
        assert value_version(kind, kafka, expires=expires) == int(written), (kafka, what)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_broker_of_a_run_is_among_those_that_can_have_written_its_records(run):
    version, _, name = run.name.partition("-")
    writer = "0.9.0" if name == "ibp-0.9.0" else version
    ranges = []
    for file in sorted(run.glob("**/*.log")):
        for batch in kg.open_log(file):
            for record in () if batch.is_control else batch.records:
                try:
                    decoded = kg.decode(record.key, record.value)
                except kg.InvalidRecord:
                    assert "craft" in name, "every record that a broker wrote is read"
                    continue
                if "craft" not in name:
                    assert parse_writer(writer) in writers_of(decoded), (file.name, record.offset, decoded)
                ranges.append(writers_of(decoded))
    assert ranges and " – " in describe_writers(ranges)


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (["0.8.2.2-basic"], "0.8.2 – 0.8.2"),
        (["1.0.1-basic"], "0.10.1 – 2.0"),
        (["2.8.2-basic"], "2.3 – 4.0"),
        (["4.3.1-main"], "4.1 – "),
        (["1.0.1-basic", "4.3.1-main"], "0.9 – "),
    ],
)
def test_a_log_tells_the_range_of_kafkas_that_can_have_written_it(runs, said):
    """One range if one version can have written everything (FACTS-legacy.md, 7), else from the oldest to the newest."""
    ranges = [
        writers_of(kg.decode(record.key, record.value))
        for run in runs
        for file in (captured("runs") / "runs" / run).glob("log/*/*.log")
        for batch in kg.open_log(file)
        if not batch.is_control
        for record in batch.records
    ]
    assert describe_writers(ranges) == said


def test_a_kafka_that_lacks_a_type_writes_none():
    """2.8 has no consumer groups of the new protocol, and no version after 0.8.2 writes type 0."""
    for kind, kafka in ((3, "2.8.2"), (0, "1.0.1"), (17, "4.0.2"), (4, "4.1.0")):
        with pytest.raises(kg.UsageError):
            value_version(kind, kafka)
