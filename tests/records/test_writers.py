"""Which value version a Kafka version writes, and which versions can have written a record."""

import json
import re

import pytest

import kafkagroups as kg
from kafkagroups import value_version
from tests.captured import captured
from tests.cases import case
from tests.handmade import LogRecord, encode_batch, write_segment

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
    """One range means that every record can have been written by one version."""
    version, _, name = run.name.partition("-")
    writer = numbers("0.9.0" if name == "ibp-0.9.0" else version)
    seen = set()
    for file in sorted(run.glob("**/*.log")):
        (partition,) = kg.stats(file).partitions.values()
        seen.add(partition.written_by)
        if "craft" in name:
            continue
        for record in (record for batch in kg.open_log(file) if not batch.is_control for record in batch.records):
            kg.decode(record.key, record.value)  # Every record that a broker wrote is read.
        for written in partition.written_by_ranges:
            assert written.versions == partition.written_by
            first, last = map(numbers, written.versions.partition(" – ")[::2])
            assert first <= writer and (not last or writer[: len(last)] <= last), (file.name, written)
    assert any(" – " in text for text in seen)


def numbers(version):
    return tuple(map(int, version.split("."))) if version else ()


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
def test_a_log_tells_the_range_of_kafkas_that_can_have_written_it(runs, said, tmp_path):
    """One range if one version can have written everything, else from the oldest to the newest."""
    records = [
        (record.key, record.value)
        for run in runs
        for file in (captured("runs") / "runs" / run).glob("log/*/*.log")
        for batch in kg.open_log(file)
        if not batch.is_control
        for record in batch.records
    ]
    data = encode_batch([LogRecord(offset, 1, *record) for offset, record in enumerate(records)])
    assert kg.stats(write_segment(tmp_path, data)).partitions[0].written_by == said


def test_a_kafka_that_lacks_a_type_writes_none():
    """2.8 has no consumer groups of the new protocol, and no version after 0.8.2 writes type 0."""
    for kind, kafka in ((3, "2.8.2"), (0, "1.0.1"), (17, "4.0.2"), (4, "4.1.0")):
        with pytest.raises(kg.UsageError):
            value_version(kind, kafka)
