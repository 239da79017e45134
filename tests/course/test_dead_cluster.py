"""Incident 10: the answers, from the bytes; and its rescue, where no broker can be started or a plan is wrong.

The rescue with a real broker is in tests/broker/test_incidents.py.
"""

import json
import sys

import pytest

import kafkagroups as kg
from kafkagroups import dialect
from kafkagroups.course import real_broker, rescue_broker, rescue_into_new_broker, show_worked_rescue
from kafkagroups.course.exercises.catalog import EXERCISES
from kafkagroups.course.lesson_folders import read_output
from kafkagroups.course.real_broker import RealBroker
from kafkagroups.course.rescue_broker import PLAN_COMMAND, correct_plan, read_recorded_answers
from kafkagroups.errors import BadBytes
from kafkagroups.records.serde import decode
from kafkagroups.spark.session import Java, NoJava

pytestmark = pytest.mark.slow

LOG_OF_A_TAKEN_PORT = (
    """\
INFO [SocketServer listenerType=BROKER, nodeId=1] Enabling request processing.
ERROR Unable to start acceptor for PLAINTEXT
org.apache.kafka.common.KafkaException: Socket server failed to bind to 127.0.0.1:9092: Address already in use.
Caused by: java.net.BindException: Address already in use
\t... 18 more
INFO [BrokerServer id=1] Transition from STARTING to STARTED
ERROR Exiting Kafka due to fatal exception during startup.
java.lang.RuntimeException: Received a fatal error while waiting for all of the SocketServer Acceptors to be started
\tat kafka.server.BrokerServer.startup(BrokerServer.scala)
Caused by: java.lang.RuntimeException: Unable to start acceptor for PLAINTEXT
\t... 6 more
Caused by: org.apache.kafka.common.KafkaException: Socket server failed to bind to 127.0.0.1:9092: …
\t... 6 more
Caused by: java.net.BindException: Address already in use
\t... 6 more
"""
    + 60 * "INFO [QuorumController id=1] writeNoOpRecord: event unable to start processing because of shutdown\n"
)
"""The errors in the log of a Kafka 4.3.1 broker whose port was taken. The INFO lines stand for its 1700 others."""


@pytest.fixture(scope="module")
def log(write_log):
    return write_log("dead_cluster")


@pytest.fixture(scope="module")
def right_plan(log, tmp_path_factory):
    """The file of the corrected plan."""
    file = tmp_path_factory.mktemp("plan") / "plan.json"
    read_output(PLAN_COMMAND.replace("plan.json", str(file)), log)
    plan = json.loads(file.read_text())
    correct_plan(plan)
    file.write_text(json.dumps(plan))
    return file


@pytest.fixture
def may_start(monkeypatch):
    """Let the function look for Java, jars and the client, as on a learner's machine. All of them are there."""
    monkeypatch.delenv("KAFKAGROUPS_BROKER")
    monkeypatch.setattr(rescue_broker, "find_java", lambda: None)
    monkeypatch.setattr(rescue_broker, "has_jars", lambda version: True)
    monkeypatch.setattr(rescue_broker.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(rescue_broker, "RealBroker", None)


def split(capsys):
    """Return the lines before the table, and the table's lines by (group, topic-partition)."""
    lines = capsys.readouterr().out.splitlines()
    start = lines.index("")
    rows = [line.split() for line in lines[start + 2 : -2]]
    return lines[:start], {(group, name): (mark, *offsets) for mark, group, name, *offsets in rows}, lines[-1]


def test_the_right_plan(right_plan, capsys):
    """The first line says that the answers are recorded, and the second line why. All offsets are right."""
    rescue_into_new_broker(right_plan)
    head, rows, end = split(capsys)
    assert head == [
        "The answers below are recorded: a real Kafka 4.3.1 broker gave them to the right plan.",
        "On this machine, no broker has answered: the environment has KAFKAGROUPS_BROKER=recorded.",
    ]
    assert {mark for mark, *_ in rows.values()} == {"✓"}
    assert end == f"{len(rows)} of {len(rows)} offsets are right."
    assert len(rows) == len(read_recorded_answers().offsets) == 51


def test_a_plan_without_options(log, tmp_path, capsys):
    """The first plan of most learners: partition 20 is missing, partition 23 is cut, and bean-orders is old."""
    plan = tmp_path / "plan.json"
    read_output(f"kafkagroups rescue plan . --out {plan}", log)
    rescue_into_new_broker(plan)
    _, rows, end = split(capsys)
    wrong = {group for (group, _), (mark, *_) in rows.items() if mark == "✗"}
    assert wrong == {
        *("night-audit", "receipt-mail", "water-filter"),
        *("cash-count", "milk-orders", "newsletter"),
        "bean-orders",
    }
    assert rows["bean-orders", "bean-0"] == ("✗", "525", "920")
    assert rows["night-audit", "night-0"] == ("✗", "none", "553")
    assert end == "36 of 51 offsets are right."


def test_a_pending_offset_in_the_plan(right_plan, tmp_path, capsys):
    """An offset that the dead cluster did not answer is wrong, also if no right offset is missing."""
    plan = json.loads(right_plan.read_text())
    plan["groups"]["card-payments"]["offsets"]["refunds-1"] = {"offset": 18}
    edited = tmp_path / "edited.json"
    edited.write_text(json.dumps(plan))
    rescue_into_new_broker(edited)
    _, rows, end = split(capsys)
    assert rows["card-payments", "refunds-1"] == ("✗", "18", "none")
    assert end == "51 of 52 offsets are right."


def test_no_plan(tmp_path, capsys):
    """The cell of the lesson runs before there is a plan."""
    rescue_into_new_broker(tmp_path / "plan.json")
    assert capsys.readouterr().out.startswith(f"There is no plan {tmp_path / 'plan.json'} yet.")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "expected JSON in UTF-8"),
        ('{"kafkagroups_plan": 1}', "missing"),
    ],
)
def test_a_plan_that_cannot_be_read(tmp_path, capsys, content, message):
    """An error in the editor gets one line, not a traceback."""
    file = tmp_path / "plan.json"
    file.write_text(content)
    rescue_into_new_broker(file)
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith(f"The plan cannot be used: {file}: ")
    assert message in line


def test_without_java(right_plan, monkeypatch, may_start, capsys):
    def find_none():
        raise NoJava("no java on the PATH, and JAVA_HOME is not set")

    monkeypatch.setattr(rescue_broker, "find_java", find_none)
    rescue_into_new_broker(right_plan)
    (_, reason), rows, _ = split(capsys)
    assert "it needs Java 17 or newer, but there is no java on the PATH" in reason
    assert len(rows) == 51


def test_a_broker_that_does_not_start(right_plan, monkeypatch, may_start, capsys):
    """The reason is shown, which is far from the end of the broker's log. The recorded answers are used."""
    script = f"print({LOG_OF_A_TAKEN_PORT!r}); raise SystemExit(1)"

    class Failing(RealBroker):
        def _command(self, *words):
            return [sys.executable, "-c", script if words[0] == "kafka.Kafka" else ""]

    monkeypatch.setattr(real_broker, "find_java", lambda: Java("java", "17.0.1"))
    monkeypatch.setattr(rescue_broker, "RealBroker", Failing)
    rescue_into_new_broker(right_plan)
    (_, _, reason), rows, _ = split(capsys)
    assert reason == (
        "On this machine, no broker has answered: the new broker failed (the broker ended: "
        "ERROR Exiting Kafka due to fatal exception during startup. "
        "Caused by: java.net.BindException: Address already in use)."
    )
    assert len(rows) == 51


def test_the_worked_rescue(capsys):
    """It shows the command, the code and a table without a wrong offset."""
    show_worked_rescue()
    shown = capsys.readouterr().out
    assert f"$ {PLAN_COMMAND}" in shown
    assert "def correct_plan(plan" in shown
    assert shown.endswith("51 of 51 offsets are right.\n")


def test_the_answers(log):
    """Two unreadable records, an offset that went back, a transaction without a marker, and a partition that is cut."""
    unreadable = []
    for batch in kg.open_log(log / "__consumer_offsets-20"):
        for record in batch.records:
            try:
                decode(record.key, record.value, dialect("new", "4.0.1"))
            except BadBytes:
                unreadable.append(record.offset)
    assert unreadable == [295, EXERCISES["cluster_second_record"].correct]
    right = {(group, str(key)): offset for (group, key), offset in read_recorded_answers().offsets.items()}
    assert right["bean-orders", "bean-0"] == EXERCISES["cluster_right_offset"].correct
    groups = kg.load(log, "new", "4.0.1", partitions=50)
    (pending,) = groups["card-payments"].pending.values()
    assert len(pending) == EXERCISES["cluster_pending"].correct
    steps_back = {
        group: offset - max((each.offset for each in groups[group].offsets.values()), default=0)
        for (group, _), offset in right.items()
        if kg.partition_for(group, 50) == 23
    }
    assert max(steps_back, key=steps_back.get) == EXERCISES["cluster_cut_group"].correct
