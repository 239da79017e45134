"""The load as data-frame steps is the new coordinator's load, on every log of record types 0 to 2 that loads."""

import pytest

from kafkagroups import spark as kgs
from kafkagroups.spark import new_coordinator as steps
from tests.spark.test_many import ordered, readable

pytestmark = pytest.mark.java

GROUPS = ("partition", "group", "state", "protocol_type", "protocol", "generation", "leader", "members")


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
