"""Spark gives the rows of the readable engine for very many logs in one load, with the engine that is there.

The load as data-frame steps is the new coordinator's load, on every log of record types 0 to 2 that loads.
"""

from collections import defaultdict

import pytest

from kafkagroups import dialect, spark as kgs
from kafkagroups.loading.columns import columns_of
from kafkagroups.loading.load import OpenTopic
from kafkagroups.loading.rows import read_table
from kafkagroups.log.folders import open_logs
from kafkagroups.spark import new_coordinator as steps
from tests.spark.tables import LOADED

pytestmark = pytest.mark.java

GROUPS = ("partition", "group", "state", "protocol_type", "protocol", "generation", "leader", "members")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("logs", "coordinator", "kafka"),
    [
        ("captured_logs", "classic", "3.9.2"),
        ("captured_logs", "new", "4.3.1"),
        ("random_logs", "classic", "3.9.2"),
        ("random_logs", "new", "4.0.2"),  # since 4.1 most commits with a key of type 0 fail the load
    ],
)
def test_every_log_loads_the_same_on_spark(session, request, logs, coordinator, kafka):
    """Each captured run, crafted case and random log: offsets, pending, groups, members and partitions, row by row."""
    folder = request.getfixturevalue(logs)
    kgs.register(session)
    options = {"coordinator": coordinator, "kafka": kafka, "engine": "auto", "failOnDamage": False}
    source = session.read.format("consumer_offsets").options(**options)
    wanted = readable(folder, coordinator, kafka)
    for table in LOADED:
        found = source.option("table", table).load(str(folder)).toArrow().select([c.name for c in columns_of(table)])
        found = ordered(found.to_pylist())
        assert len(found) == len(wanted[table]) > 0
        assert [pair for pair in zip(found, wanted[table], strict=True) if pair[0] != pair[1]] == [], table


@pytest.mark.thorough
@pytest.mark.parametrize(("logs", "kafka"), [("captured_logs", "4.3.1"), ("random_logs", "4.0.2")])
def test_the_steps_answer_as_the_loader(session, request, logs, kafka):
    """Captured runs, crafted cases and random logs, each a log partition: offsets, pending, and the list of groups."""
    # 4.1 and newer refuse most commits with a key of type 0, which stand in many of the random logs
    folder = request.getfixturevalue(logs)
    kgs.register(session)
    source = session.read.format("consumer_offsets").options(coordinator="new", kafka=kafka, table="records")
    source = source.option("failOnDamage", False)
    records = source.load(str(folder)).persist()
    wanted = readable(folder, "new", kafka)
    newer = records.where("control is null and type > 2").select("partition").distinct().collect()
    failed = {row["partition"] for row in wanted["partitions"] if row["error"]}
    left_out = failed | {row["partition"] for row in newer}
    assert len(wanted["partitions"]) > 2 * len(left_out)
    answer = steps.compute_answer(records)
    for table, columns in (("offsets", None), ("pending", None), ("groups", GROUPS)):
        found = getattr(answer, table).toArrow().to_pylist()
        rows = [{name: row[name] for name in columns or row} for row in wanted[table]]
        given, expected = (ordered(row for row in some if row["partition"] not in left_out) for some in (found, rows))
        assert len(given) == len(expected) > 0, table
        assert [pair for pair in zip(given, expected, strict=True) if pair[0] != pair[1]] == [], table
    records.unpersist()


def readable(folder, coordinator, kafka):
    """Return the rows of each table as the readable engine gives them, log by log."""
    rows = defaultdict(list)
    for log in open_logs(folder):
        groups = OpenTopic([log], dialect(coordinator, kafka)).load()
        for table in LOADED:
            rows[table] += read_table(groups, table).read_all().to_pylist()
    return {table: ordered(some) for table, some in rows.items()}


def ordered(rows):
    return sorted(rows, key=lambda row: repr(tuple(row.values())))
