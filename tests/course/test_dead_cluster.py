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
from kafkagroups.course.exercises.incidents import dead_cluster
from kafkagroups.course.exercises.incidents.incident import SEED
from kafkagroups.course.lesson_folders import read_output
from kafkagroups.course.real_broker import RealBroker
from kafkagroups.course.rescue_broker import PLAN_COMMAND, correct_plan, read_recorded_answers
from kafkagroups.errors import BadBytes
from kafkagroups.log.batches import parse_batch_at
from kafkagroups.records.serde import decode
from kafkagroups.spark.session import Java, NoJava
from tests.handmade import ControlType, decode_control_key

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


def read_all_commits(folder):
    """Return the partition, offset, key, committed offset and producer id of each commit, also behind damaged bytes.

    The second result has the producer ids whose transactions were committed in each partition, up to which offset.
    """
    commits = []
    committed_until = {}
    for path in sorted(folder.glob("*/*.log")):
        partition = int(path.parent.name.rpartition("-")[2])
        data = path.read_bytes()
        position = 0
        while position < len(data):
            batch = parse_batch_at(data, position)
            position += batch.size
            if not batch.is_valid:
                continue
            if batch.is_control:
                if decode_control_key(batch.records[0].key) is ControlType.COMMIT:
                    committed_until[partition, batch.producer_id] = batch.base_offset
                continue
            for record in batch.records:
                if record.key[:2] == b"\x00\x01":
                    decoded = kg.decode(record.key, record.value)
                    key = (decoded.key.group, decoded.key.topic, decoded.key.partition)
                    producer = batch.producer_id if batch.is_transactional else None
                    commits.append((partition, record.offset, key, decoded.value.offset, producer))
    return commits, committed_until


@pytest.mark.parametrize("seed", [SEED, 1, 2])
def test_dead_cluster(seed, write_log):
    """The answers, from the records: two unreadable ones, an offset that went back, a transaction without a marker."""
    folder = write_log("dead_cluster", seed)
    unreadable = []
    for batch in kg.open_log(folder / "__consumer_offsets-20"):
        for record in batch.records:
            try:
                decode(record.key, record.value, dialect("new", "4.0.1"))
            except BadBytes:
                unreadable.append(record.offset)
    assert unreadable == [295, EXERCISES["cluster_second_record"].correct]

    commits, committed_until = read_all_commits(folder)
    newest = {}
    highest = {}
    for partition, offset, key, committed, producer in commits:
        if producer is None or offset < committed_until.get((partition, producer), -1):
            highest[key] = max(committed, highest.get(key, -1))
            if partition == kg.partition_for(key[0], 50):
                newest[key] = committed
    went_back = {key for key in highest if newest[key] < highest[key]}
    assert went_back == {("bean-orders", "bean", number) for number in range(3)}
    assert highest["bean-orders", "bean", 0] == EXERCISES["cluster_right_offset"].correct

    pending = {
        key
        for partition, offset, key, _, producer in commits
        if producer == dead_cluster.PRODUCER_ID and offset > committed_until[partition, producer]
    }
    assert len(pending) == EXERCISES["cluster_pending"].correct
    assert {group for group, *_ in pending} == {"card-payments"}

    cut = {}
    for batch in kg.open_log(folder / "__consumer_offsets-23"):
        for record in batch.records:
            decoded = kg.decode(record.key, record.value)
            cut[decoded.key.group, decoded.key.topic, decoded.key.partition] = decoded.value.offset
    steps_back = {key: newest[key] - cut[key] for key in cut if kg.partition_for(key[0], 50) == 23}
    [furthest] = {key[0] for key, step in steps_back.items() if step == max(steps_back.values())}
    assert furthest == EXERCISES["cluster_cut_group"].correct

    if seed == SEED:
        recorded = read_recorded_answers().offsets
        assert {(group, key.topic, key.partition): offset for (group, key), offset in recorded.items()} == highest
