"""Spark gives the rows of the readable engine for very many logs in one load, with the engine that is there."""

from collections import defaultdict

import pytest

from kafkagroups import dialect, spark as kgs
from kafkagroups.loading.columns import columns_of
from kafkagroups.loading.load import OpenTopic
from kafkagroups.loading.rows import read_table
from kafkagroups.log.folders import open_logs
from tests.spark.tables import LOADED

pytestmark = pytest.mark.java


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
