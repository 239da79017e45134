"""Damage never makes a table, a stream or a kept snapshot shorter in silence: an error names it, or it is reported."""

import os
import shutil
import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import kafkagroups as kg
from kafkagroups import dialect, open_log, spark as kgs
from kafkagroups.loading.columns import arrow_schema
from kafkagroups.spark.keeping import End, advance
from kafkagroups.spark.options import LOCATED_BATCHES
from kafkagroups.spark.session import scratch_folder
from kafkagroups.spark.source import ConsumerOffsets
from kafkagroups.spark.tasks import task_errors
from tests.handmade import segment_name
from tests.loading.test_topic_partitions import widened
from tests.snapshots.forged import Snapshot, take_snapshot
from tests.spark.tables import read

__all__ = ["widened"]

STORY = Path("data/harbour/3.9.2")
RULES = dialect("new", None)
CLASSIC = dialect("classic", None)
GOES_ON = {"failOnDamage": "false"}
LONG_AGO = 1_700_000_000


@pytest.fixture
def topic(tmp_path):
    """Return the folder of two partitions. The first has three segments, and nobody has written a file for long."""
    batches = list(open_log(STORY / "__consumer_offsets-9"))
    data = Path(batches[0].file).read_bytes()
    starts = [batches[index] for index in (0, len(batches) // 3, 2 * len(batches) // 3)]
    folder = tmp_path / "topic" / "__consumer_offsets-9"
    folder.mkdir(parents=True)
    ends = [start.position for start in starts[1:]] + [len(data)]
    for start, end in zip(starts, ends, strict=True):
        segment = folder / segment_name(start.base_offset)
        segment.write_bytes(data[start.position : end])
        os.utime(segment, (LONG_AGO, LONG_AGO))
    shutil.copytree(STORY / "__consumer_offsets-12", folder.parent / "__consumer_offsets-12")
    return folder.parent


def flips(topic, every):
    """Yield (segment, position) while this byte of the topic is damaged: one byte of each `every` bytes."""
    for segment in sorted((topic / "__consumer_offsets-9").iterdir()):
        data = segment.read_bytes()
        for position in range(0, len(data), every):
            segment.write_bytes(data[:position] + bytes([data[position] ^ 0x55]) + data[position + 1 :])
            os.utime(segment, (LONG_AGO, LONG_AGO))
            yield segment, position
        segment.write_bytes(data)
        os.utime(segment, (LONG_AGO, LONG_AGO))


def names_damage(error, segment, position):
    """Return whether an error names a file and an offset of the log, at the damage or at the next batch."""
    place = (Path(error.file), error.position, error.offset)
    return (
        place[0].parent == segment.parent and (place[0] > segment or error.position <= position + 700) and place[2] >= 0
    )


def stream_of(topic, **options):
    source = ConsumerOffsets({"path": str(topic), "table": "batches", **options})
    return source.streamReader(from_arrow_schema(arrow_schema(LOCATED_BATCHES)))


def stream(topic, start=None, **options):
    """Return the rows of table batches that a stream reads from its beginning or a position, and its next position."""
    start = start or {}
    reader = stream_of(topic, **options)
    end = reader.latestOffset(start, None)
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return pa.Table.from_batches(batches), end


def keep(topic, rows, folder, rules=RULES):
    """Return the snapshot in a folder after the batches that a stream has read."""
    if not folder.exists():
        Snapshot(rules).save(folder)
    ends = {}
    for row in rows.to_pylist():
        offset, damage = ends.get(row["partition"], (0, None))
        ends[row["partition"]] = End(max(offset, row["next_offset"]), row["damage"] or damage)
    advance(str(topic), folder, ends)
    return Snapshot.read(folder)


EVERY = [pytest.param(10, marks=pytest.mark.thorough), 211]


@pytest.mark.parametrize("every", EVERY)
def test_a_table_is_whole_or_names_its_damage(topic, every):
    """By default, an error names file and offset; otherwise table partitions has the damage. Never fewer rows."""
    whole = {table: len(read(topic, table=table)) for table in ("offsets", "groups", "records", "fates")}
    errors = 0
    for segment, position in flips(topic, every):
        partitions = read(topic, table="partitions", **GOES_ON)
        for table, count in whole.items():
            try:
                if len(read(topic, table=table)) != count:  # An offset is in no checksum. If it falls, the load fails.
                    assert any(row["error"] for row in partitions), (segment, position)
            except kg.InvalidLog as error:
                errors += 1
                assert names_damage(error, segment, position)
                (damage,) = [row["damage"] for row in partitions if row["damage"]]
                end = f"{error.file}, byte {error.position}: the log ends here at offset {error.offset}"
                assert damage.startswith(end)
                assert len(read(topic, table=table, **GOES_ON)) <= count
    assert errors > 40


@pytest.mark.parametrize("every", EVERY)
def test_a_stream_is_whole_or_names_its_damage(topic, every, capsys):
    """A stream over damage fails; with failOnDamage=false, Spark's log names the damage, and a row has it."""
    whole, _ = stream(topic)
    errors = 0
    for segment, position in flips(topic, every):
        try:
            found, _ = stream(topic)
            assert found.num_rows == whole.num_rows, (segment, position)
        except kg.InvalidLog as error:
            errors += 1
            assert names_damage(error, segment, position)
            found, end = stream(topic, **GOES_ON)
            (row,) = [row for row in found.to_pylist() if row["damage"]]
            assert (row["file"], row["position"], row["base_offset"]) == (error.file, error.position, error.offset)
            assert f"{error.file}, byte {error.position}: the log ends here" in capsys.readouterr().err
            again = stream_of(topic, **GOES_ON)
            assert again.latestOffset(end, None) == end and again.partitions(end, end) == []
    assert errors > 10


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.filterwarnings("ignore:.*the log ends here")
def test_a_kept_snapshot_reports_its_damage(topic, every, tmp_path):
    """With failOnDamage=false, the kept snapshot has the problem that a load of the same log has."""
    reported = 0
    for number, (segment, position) in enumerate(flips(topic, every)):
        rows, _ = stream(topic, **GOES_ON)
        kept = keep(topic, rows, tmp_path / str(number)).groups(str(topic))
        loaded = kg.load(topic)
        assert (kept.problems, kept.partitions[9]) == (loaded.problems, loaded.partitions[9]), (segment, position)
        reported += bool(kept.problems)
    assert reported > 10


@pytest.mark.filterwarnings("ignore:.*the log ends here")
def test_a_kept_snapshot_goes_on_after_a_repair(topic, tmp_path):
    """The damage ends the snapshot once. After the repair, the next batches follow, and the problem is gone.

    An incomplete batch that a broker is writing is no problem, and any load can go on from the snapshot.
    """
    first, *_ = sorted((topic / "__consumer_offsets-9").iterdir())
    data = first.read_bytes()
    first.write_bytes(data[:300] + b"?" + data[301:])
    rows, end = stream(topic, **GOES_ON)
    assert "the log ends here" in keep(topic, rows, tmp_path / "state").groups().problems[0]
    first.write_bytes(data)
    last = max((topic / "__consumer_offsets-9").iterdir())
    last.write_bytes(last.read_bytes() + data[:50])
    rows, _ = stream(topic, end, **GOES_ON)
    for _ in range(2):  # After a crash, Spark sends batches again.
        kept = keep(topic, rows, tmp_path / "state")
        groups = kept.groups()
        whole = kg.load(topic)
        assert (groups.problems, groups.groups) == ([], whole.groups)
        assert groups.partitions[9].records == whole.partitions[9].records
    assert kept.advance(topic).notes == []


def test_moved_groups_are_named(widened, capsys):
    """In a folder with two partition counts, each partition is loaded alone, so moved groups stand in it twice."""
    path, moved, _ = widened
    rows = [row["partition"] for row in read(path, table="groups") if row["group"] == moved]
    assert len(rows) == 2
    said = capsys.readouterr().err
    assert f"such as {moved}" in said and "can stand in this table twice" in said
    read(STORY, coordinator="classic")
    read(path, table="groups", partitions="5")
    assert capsys.readouterr().err == ""


@pytest.mark.java
def test_spark_fails_or_warns(session, topic, tmp_path):
    """kgs.load, load_groups, stats, explain, the data source and keep: the default fails, False warns and goes on."""
    damage = flips(topic, 300)
    segment, _ = [next(damage) for _ in range(2)][1]
    there = f"{segment}, offset "
    problems = kg.load(topic).problems
    questions = {
        "load": lambda **on: kgs.load(topic, session=session, **on).offsets.count(),
        "load_groups": lambda **on: kgs.load_groups(topic, session=session, **on).problems,
        "stats": lambda **on: kgs.stats(topic, session=session, **on).problems,
        "explain": lambda **on: kgs.explain(topic, "billing", session=session, **on).problems,
    }
    for name, ask in questions.items():
        with pytest.raises(kg.InvalidLog) as caught:
            ask()
        assert str(caught.value).startswith(there), name
        with pytest.warns(kgs.DamagedLog, match="the log ends here") as found:
            answer = ask(fail_on_damage=False)
        assert len(found) == 1, name
        assert name == "load" or answer == problems != [], name
    kgs.register(session)
    source = session.read.format("consumer_offsets")
    source.option("failOnDamage", False).load(str(topic)).count()
    assert f"{segment}, byte " in Path(scratch_folder(), "spark.log").read_text()
    query = kgs.keep(topic, tmp_path / "strict", until_now=True, session=session)
    with pytest.raises(Exception, match=there):
        query.awaitTermination()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        kgs.keep(topic, tmp_path / "state", until_now=True, session=session, fail_on_damage=False).awaitTermination()
    assert [warning for warning in found if warning.category is kgs.DamagedLog]
    assert "the log ends here" in Snapshot.read(tmp_path / "state").groups().problems[0]


def test_a_damaged_segment_is_named_by_the_driver():
    """If a task finds a damaged segment, the driver raises the InvalidLog of the task, without Spark's exception."""
    with pytest.raises(kg.InvalidLog, match=r"^/state/3\.log: the snapshot cannot be read"), task_errors():
        raise RuntimeError("at java\nkafkagroups.errors.InvalidLog: /state/3.log: the snapshot cannot be read: x\n")


@pytest.mark.java
def test_a_damaged_snapshot_is_not_kept(session, tmp_path):
    """A stream does not start with a damaged snapshot."""
    take_snapshot("data/harbour/3.9.2", "classic").save(tmp_path / "state")
    (file,) = (tmp_path / "state").glob("9.*.log")
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(kg.InvalidLog, match="take a new one"):
        kgs.keep("data/harbour/3.9.2", tmp_path / "state", "classic", session=session)
