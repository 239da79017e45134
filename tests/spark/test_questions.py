"""`kgs.stats`, `kgs.explain` and the commands with --engine spark give the answers of one process.

Other tests compare the answers of one process with brokers.
"""

import shutil

import pytest

import kafkagroups as kg
from kafkagroups import UsageError, spark as kgs
from tests.cases import case
from tests.command import main
from tests.handmade import LogRecord, encode_batch, flip_bit
from tests.loading.test_topic_partitions import widened
from tests.spark.test_spark import DATA, RUNS, STORY

__all__ = ["widened"]

pytestmark = pytest.mark.java

COORDINATORS = ("classic", "new")
SEGMENT = "00000000000000000000.log"


def check_stats(session, path, by, **options):
    """Check that Spark's statistics are those of one process, in the same order."""
    expected = kg.stats(path, by, **options)
    found = kgs.stats(path, by, session=session, fail_on_damage=None, **options)
    assert found == expected
    assert list(found.rows) == list(expected.rows)
    assert list(found.partitions) == list(expected.partitions)


def check_explanation(session, path, group, *topic_partition, **options):
    """Check that Spark's explanation is that of one process, in the same order."""
    expected = kg.explain(path, group, *topic_partition, **options)
    found = kgs.explain(path, group, *topic_partition, session=session, fail_on_damage=None, **options)
    assert found == expected
    assert list(found.partitions) == list(expected.partitions)
    return found


def test_one_offset_and_the_limits_of_an_explanation(session):
    """`topic` and `partition`, `until`, `until_time`, the engine, and a group without records."""
    for coordinator in COORDINATORS:
        check_stats(session, DATA / "3.9.2", "topic", coordinator=coordinator, engine="python")
        check_explanation(session, DATA / "3.9.2", "billing", coordinator=coordinator, engine="python")
        found = check_explanation(session, DATA / "3.9.2", "billing", "orders", 0, coordinator=coordinator)
        assert found.history and found.answer
        check_explanation(session, DATA / "3.9.2", "billing", "orders", 99, coordinator=coordinator)
        found = check_explanation(session, DATA / "3.9.2", "no such group", coordinator=coordinator)
        assert not found.history and len(found.partitions) > 1
        check_explanation(session, DATA / "3.9.2", "billing", coordinator=coordinator, until_time=1_795_255_200_000)
        log = DATA / "3.9.2" / "__consumer_offsets-9"
        check_explanation(session, log, "billing", coordinator=coordinator, until=41)
        options = {"coordinator": coordinator, "since_time": 1_795_255_997_000, "retention_ms": 1}
        found = check_explanation(session, DATA / "3.9.2", "billing", "orders", **options)
        assert found.history and found.answer


@pytest.mark.parametrize("coordinator", COORDINATORS)
@pytest.mark.parametrize(
    ("topic", "partitions"), [("foreign", None), ("foreign", 400), ("widened", None), ("widened", 5)]
)
def test_a_group_in_two_partitions_is_answered_as_by_one_broker(session, request, topic, coordinator, partitions):
    """The logs that share a group are loaded, counted and explained together.

    The driver decides the partition count from the groups of all tasks.
    """
    path = request.getfixturevalue(topic)
    path = path[0] if topic == "widened" else path
    options = {"coordinator": coordinator, "partitions": partitions}
    groups = kg.load(path, **options)
    on_spark = kgs.load_groups(path, **options, session=session)
    assert (on_spark.groups, on_spark.elsewhere) == (groups.groups, groups.elsewhere)
    assert on_spark.topic_partitions == groups.topic_partitions
    in_several = [group for group, numbers in groups.partitions_of.items() if len(numbers) > 1]
    in_one = [group for group, numbers in groups.partitions_of.items() if len(numbers) == 1]
    assert in_several
    for by in ("group", "partition"):
        check_stats(session, path, by, **options)
    for group in (*in_several[:2], *in_one[:1]):
        check_explanation(session, path, group, **options)


@pytest.mark.thorough
@pytest.mark.parametrize("coordinator", COORDINATORS)
def test_all_captured_logs_as_one_topic(session, captured_logs, coordinator):
    """Hundreds of shared groups, and loads that fail, some of them only because of a shared group."""
    groups = kg.load(captured_logs, coordinator)
    failed = groups.failed
    assert len(failed) > 10
    check_stats(session, captured_logs, "group", coordinator=coordinator)
    check_stats(session, captured_logs, "group", coordinator=coordinator, partitions=50)
    of_failed = [group for group, numbers in groups.partitions_of.items() if len(numbers) == 1 and numbers[0] in failed]
    in_several = [group for group, numbers in groups.partitions_of.items() if len(numbers) > 1]
    for group, partitions in ((of_failed[0], None), (in_several[0], None), (in_several[-1], 50)):
        check_explanation(session, captured_logs, group, coordinator=coordinator, partitions=partitions)
    if coordinator == "classic":
        unloads = [number for number, error in failed.items() if error.startswith("Unexpected unload")]
        assert not all(kg.load(captured_logs / f"__consumer_offsets-{number}", "classic").failed for number in unloads)


@pytest.fixture
def bad_topic(tmp_path):
    """Return the shop's log of 3.9.2, in which partition 9 is damaged, with a partition 60 whose load fails."""
    topic = tmp_path / "topic"
    shutil.copytree(DATA / "3.9.2", topic)
    segment = topic / "__consumer_offsets-9" / SEGMENT
    flip_bit(segment, -1)
    failing = next(
        log
        for run in RUNS
        if run.parent.name == "1.0.1-craft-b"
        for log in sorted(run.iterdir())
        if all(kg.load(log, coordinator).failed for coordinator in COORDINATORS)
    )
    shutil.copytree(failing, topic / "__consumer_offsets-60")
    return topic


def test_the_commands_print_the_same_with_spark(session, bad_topic, foreign, capsys):
    """Damage and a failing load: the same output, messages in the same order, and the same exit code."""
    old, classic, new = map(str, STORY)
    bad = str(bad_topic)
    in_failed = next(iter(kg.load(bad_topic / "__consumer_offsets-60").partitions_of))
    runs = [str(run) for run in RUNS if run.parent.name in ("4.3.1-main", "1.0.1-txn")]
    statuses = set()
    for arguments in (
        *(["load", run] for run in (old, classic, new, *runs)),
        ["load", new, "--coordinator", "classic", "--kafka", "1.0.1"],
        ["load", str(foreign), "--coordinator", "classic"],
        ["load", str(foreign), "--partitions", "400"],
        ["load", f"{old}/__consumer_offsets-9", "--until", "20"],
        ["load", old, "--until", "20"],
        ["load", old, "--until-time", "2026-11-21T10:00:00"],
        ["stats", bad, "--by", "type"],
        ["stats", new, bad, "--kafka", "3.9.2", "--coordinator", "classic"],
        ["explain", bad, "--group", "billing", "--coordinator", "classic"],
        ["explain", bad, "--group", in_failed],
        ["explain", bad, "--group", in_failed, "--coordinator", "classic"],
        ["explain", classic, "--group", "billing", "--topic", "orders", "--partition", "0"],
        ["explain", classic, "--group", "no such group", "--until", "20"],
        ["explain", new, "--group", "*l*", "--topic", "orders", "--retention", "7d"],
    ):
        with case(arguments):
            answers = []
            for engine in ("auto", "spark"):
                status = main([*arguments, "--json", "--engine", engine])
                answers.append((status, *capsys.readouterr()))
            assert answers[0] == answers[1]
            statuses.add(answers[0][0])
    assert statuses == {0, 1, 2}


def test_each_group_of_a_pattern_is_a_question_to_spark(session, capsys, monkeypatch):
    """With --engine spark, no log is read in the process of the command."""
    asked = []
    explain = kgs.explain

    def note(path, group, *question, **options):
        asked.append(group)
        return explain(path, group, *question, **options)

    monkeypatch.setattr(kgs, "explain", note)
    words = ["explain", str(DATA / "3.9.2"), "--coordinator", "classic", "--json", "--engine", "spark"]
    assert main([*words, "--group", "*il*"]) == 0
    assert asked == ["billing", "mailer"] and capsys.readouterr().out.count("\n") == 2


def test_an_unknown_group_of_an_address(session, capsys):
    """The answer is that the group has no record, also at an address that only Spark can open."""
    address = (DATA / "3.9.2").as_uri()
    assert main(["explain", address, "--engine", "spark", "--coordinator", "classic", "--group", "nobody"]) == 0
    assert f"No record of nobody in {address}" in capsys.readouterr().out


def test_wrong_usage_is_the_error_of_one_process(session, tmp_path):
    """The driver checks the parameters, and a task's error reaches the caller with its message."""
    shutil.copytree(DATA / "3.9.2", tmp_path / "log")
    segment = tmp_path / "log" / "__consumer_offsets-12" / SEGMENT
    segment.unlink()
    segment.mkdir()
    orders = tmp_path / "orders-0"
    orders.mkdir()
    (orders / SEGMENT).write_bytes(encode_batch([LogRecord(0, 0, b"customer-17", b"{}")]))
    for ask in (
        lambda module: module.stats(orders),
        lambda module: module.explain(orders, "billing"),
        lambda module: module.stats(tmp_path / "log"),
        lambda module: module.explain(tmp_path / "log", "billing"),
        lambda module: module.stats(DATA / "3.9.2", "no such kind"),
        lambda module: module.stats(DATA / "3.9.2", engine="no such engine"),
        lambda module: module.stats(tmp_path / "no such log"),
        lambda module: module.explain(DATA / "3.9.2", "billing", None, 0),
        lambda module: module.explain(DATA / "3.9.2", "no such group", until=20),
    ):
        messages = []
        for module in (kg, kgs):
            with pytest.raises(UsageError) as caught:
                ask(module)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


@pytest.mark.parametrize("command", [["load"], ["stats"], ["explain", "--group", "billing"]])
def test_spark_options_without_spark_are_wrong_usage(command, capsys):
    """--master and a remote path need --engine spark."""
    for arguments in (["s3://bucket/log"], [str(DATA / "3.9.2"), "--master", "local[2]"]):
        assert main([*command, *arguments]) == 2
        printed = capsys.readouterr()
        assert printed.out == "" and printed.err.endswith(" needs --engine spark\n") and printed.err.count("\n") == 1
