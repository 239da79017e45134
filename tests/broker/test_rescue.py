"""A cluster of Kafka 3.9.2 is killed. `rescue` brings its groups into a fresh 4.3.1 and a fresh 3.9.2 broker.

The expectations are the dead broker's own answers before its death.
"""

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import time

import pytest

import kafkagroups as kg
from kafkagroups import UsageError
from kafkagroups.repair.client import create_topics
from kafkagroups.repair.plan import read_plan
from kafkagroups.repair.pull import pull
from tests.broker.broker import CLASSIC, PASSWORD, VERSIONS, Broker, need_jars
from tests.command import main

pytest.importorskip("kafka", reason="no kafka-python")
from tests.broker import client

pytestmark = pytest.mark.broker

NEW = "4.3.1"
"""The version whose coordinator has groups of the new protocol. 3.9.2 runs the classic coordinator."""
PARTITIONS = 5
TOPICS = {"orders": 3, "payments": 2}
RECORDS = 60
"""The number of records in each partition of each topic, in every cluster."""
GONE = "gone"
"""A topic that only the dead cluster has."""
TRIMMED = "trimmed"
"""A topic of the fresh clusters. Its first records are deleted."""
PLAIN = [f"shop-{number}" for number in range(40)]
WITH_MEMBERS = "café ☕"
TRANSACTIONAL = "fraud-check"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    """A function that starts a fresh broker with the topics. All brokers are stopped at the end."""
    started = []

    def start(version, topics):
        need_jars(version)
        folder = tmp_path_factory.mktemp(f"rescue-{version}-")
        broker = Broker(version, folder, PARTITIONS)
        started.append(broker)
        broker.start()
        fill_topics(broker, topics)
        return broker

    yield start
    for broker in started:
        broker.stop()
        shutil.rmtree(broker.folder, ignore_errors=True)


def fill_topics(broker, topics):
    """Create topics with RECORDS records in each partition, without transactions: offsets 0 to RECORDS - 1."""
    create_topics(broker.address, topics, RECORDS)


def run_consumer(broker, group, *topics):
    """A consumer that has joined the group and has committed."""
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        *topics,
        bootstrap_servers=broker.address,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=3_600_000,
        max_poll_records=7,
    )
    deadline = time.monotonic() + 60
    while not consumer.poll(timeout_ms=1000):
        assert time.monotonic() < deadline, "the consumer got no records"
    consumer.commit()
    return consumer


def commit_in_transaction(broker, transactional_id, offset, end):
    """Commit an offset of TRANSACTIONAL for payments-0 and payments-1 in a transaction. `end` is a method's name."""
    from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
    from kafka.structs import ConsumerGroupMetadata

    producer = KafkaProducer(
        bootstrap_servers=broker.address, transactional_id=transactional_id, transaction_timeout_ms=900_000
    )
    producer.init_transactions()
    producer.begin_transaction()
    offsets = {
        TopicPartition("payments", number): OffsetAndMetadata(offset, "in a transaction", -1) for number in (0, 1)
    }
    producer.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(TRANSACTIONAL, -1, "", None))
    if end is not None:
        getattr(producer, end)()
        producer.close()
    return producer


@pytest.fixture(scope="module")
def dead(brokers):
    """A killed broker of 3.9.2, its folder, and what it answered before: offsets by group, and by topic-partition."""
    broker = brokers(CLASSIC, {**TOPICS, GONE: 1})
    with client.asking(broker.address) as ask:
        client.find_coordinator(ask, "any")
        broker.wait_until_loaded()
        for index, group in enumerate(PLAIN):
            for topic, count in TOPICS.items():
                for partition in range(count):
                    assert client.commit(ask, group, topic, partition, (index + partition) % RECORDS) == 0
            assert client.commit(ask, group, "orders", 0, index % RECORDS) == 0
        assert client.commit(ask, "behind", GONE, 0, 5) == 0
        assert client.commit(ask, "behind", "orders", 1, 6) == 0
        assert client.commit(ask, "beyond", "orders", 2, RECORDS + 5) == 0
        consumer = run_consumer(broker, WITH_MEMBERS, "orders")
        commit_in_transaction(broker, "t-1", 11, "commit_transaction")
        commit_in_transaction(broker, "t-2", 22, "abort_transaction")
        pending = commit_in_transaction(broker, "t-3", 33, None)
        groups = [*PLAIN, "behind", "beyond", WITH_MEMBERS, TRANSACTIONAL]
        answers = client.offsets(ask, groups, stable=False)
        unstable = client.offsets(ask, [TRANSACTIONAL], stable=True)[TRANSACTIONAL]
        assert unstable == {"payments-0": client.UNSTABLE, "payments-1": client.UNSTABLE}
        broker.process.send_signal(signal.SIGKILL)
        broker.process.wait()
        broker.process = None
    for each in (consumer, pending):
        close_without_broker(each)
    return broker.folder / "data", without_epochs(answers)


def close_without_broker(each):
    """Stop the threads of a client whose broker is gone."""
    with contextlib.suppress(Exception):
        each.close(timeout=0) if hasattr(each, "begin_transaction") else each.close(autocommit=False, timeout_ms=0)


def without_epochs(answers):
    """Offset and metadata by group and topic-partition. Leader epochs differ, because `rescue` never sends them."""
    return {
        group: {key: (offset, metadata) for key, (offset, _, metadata) in offsets.items()}
        for group, offsets in answers.items()
    }


@pytest.fixture(scope="module")
def plan_file(dead, tmp_path_factory):
    """The plan of the dead broker's folder."""
    file = tmp_path_factory.mktemp("plan") / "plan.json"
    assert main(["rescue", "plan", str(dead[0]), "--kafka", CLASSIC, "--out", str(file)]) == 0
    return file


@pytest.fixture(scope="module", params=VERSIONS)
def fresh(request, brokers):
    return brokers(request.param, {**TOPICS, TRIMMED: 1})


@pytest.fixture
def apply(fresh, plan_file, capsys):
    """Run `rescue apply --json`. Return exit code, rows by (group, topic-partition), and stderr."""

    def call(*options, plan=plan_file, address=None):
        capsys.readouterr()
        words = ["rescue", "apply", str(plan), "--bootstrap", address or fresh.address, "--json", *map(str, options)]
        code = main(words)
        out, err = capsys.readouterr()
        rows = [json.loads(line) for line in out.splitlines()]
        return code, {(row["group"], row["topic_partition"]): row for row in rows}, err

    return call


def edited(plan_file, tmp_path, change):
    """A copy of the plan that a person has edited."""
    plan = json.loads(plan_file.read_text())
    change(plan["groups"])
    file = tmp_path / "edited.json"
    file.write_text(json.dumps(plan))
    return file


def only(*groups):
    def change(plan):
        for group in set(plan) - set(groups):
            del plan[group]

    return change


def test_the_plan_is_what_the_dead_broker_answered(dead, plan_file):
    """Group by group. The aborted commits are history or left out, and the pending ones are left out."""
    _, answers = dead
    plan = read_plan(plan_file)
    planned = {
        name: {str(key): (offset.offset, offset.metadata) for key, offset in group.offsets.items()}
        for name, group in plan.groups.items()
    }
    assert planned == answers
    left_out = {str(key): (entry.why.value, entry.offset) for key, entry in plan.groups[TRANSACTIONAL].left_out.items()}
    assert left_out == {"payments-0": ("pending", 33), "payments-1": ("pending", 33)}
    assert planned[TRANSACTIONAL]["payments-0"] == (11, "in a transaction")
    assert plan.groups[WITH_MEMBERS].state == "Stable"


def test_groups_come_back(dead, plan_file, fresh, apply):
    """Nothing is written without --yes. A killed and repeated `apply` ends as one that was not killed."""
    _, answers = dead
    code, rows, err = apply()
    assert (code, err) == (1, "")
    refused = {key: row["why"] for key, row in rows.items() if row["result"] == "refused"}
    assert refused == {
        ("behind", "gone-0"): "the cluster has no topic gone",
        ("beyond", "orders-2"): f"offset {RECORDS + 5} is beyond the log end offset {RECORDS} of orders-2",
    }
    assert {row["result"] for key, row in rows.items() if key not in refused} == {"would_set"}
    with pytest.raises(UsageError, match="no group has ever committed an offset"):
        pull(fresh.address, fresh.folder / "no-topic")  # Without --yes, not even the offsets topic is created.

    words = [sys.executable, "-m", "kafkagroups", "rescue", "apply", str(plan_file), "--bootstrap", fresh.address]
    with subprocess.Popen([*words, "--yes", "--json"], stdout=subprocess.PIPE) as process:
        for _ in range(30):
            process.stdout.readline()
        process.kill()
    with client.asking(fresh.address) as ask:
        after_kill = without_epochs(client.offsets(ask, sorted(answers), stable=True))
        assert 0 < sum(map(len, after_kill.values())) < sum(map(len, answers.values()))

        code, rows, err = apply("--yes")
        assert (code, err) == (1, "")
        assert {row["result"] for row in rows.values()} == {"set", "same", "refused"}
        wanted = {
            group: {key: value for key, value in offsets.items() if (group, key) not in refused}
            for group, offsets in answers.items()
        }
        assert without_epochs(client.offsets(ask, sorted(answers), stable=True)) == wanted
        epochs = {
            epoch
            for offsets in client.offsets(ask, sorted(answers), stable=True).values()
            for _, epoch, _ in offsets.values()
        }
        assert epochs == {-1}
        code, rows, _ = apply("--yes")
        assert code == 1 and {key for key, row in rows.items() if row["result"] != "same"} == set(refused)


def test_a_topic_that_exists(fresh):
    """`create_topics` never appends to a topic that somebody else has made."""
    with pytest.raises(UsageError, match="TOPIC_ALREADY_EXISTS"):
        create_topics(fresh.address, {"orders": 1}, 1)


def test_a_group_with_members(fresh, apply, plan_file, tmp_path):
    """A classic consumer runs in the cluster: each of the group's offsets is refused, and nothing changes."""
    group = "with members"
    plan = edited(plan_file, tmp_path, lambda groups: [only("shop-3")(groups), groups["shop-3"].update(to=group)])
    consumer = run_consumer(fresh, group, "orders")
    try:
        with client.asking(fresh.address) as ask:
            before = client.offsets(ask, [group], stable=False)
            code, rows, _ = apply("--yes", plan=plan)
            assert code == 1 and client.offsets(ask, [group], stable=False) == before
        whys = {row["why"] for row in rows.values()}
        assert whys == {"the group has members (it is Stable): stop its consumers, and run the command again"}
        assert {row["result"] for row in rows.values()} == {"refused"}
    finally:
        consumer.close()
    code, rows, _ = apply("--yes", plan=plan)
    assert code == 0 and rows[group, "orders-0"]["result"] == "set"


@pytest.mark.parametrize("fresh", [NEW], indirect=True)
def test_a_group_of_the_new_protocol_with_members(fresh, apply, plan_file, tmp_path):
    """DescribeGroups of a consumer group answers Dead. The group is refused all the same."""
    group = "new protocol"
    plan = edited(plan_file, tmp_path, lambda groups: [only("shop-4")(groups), groups["shop-4"].update(to=group)])
    command = fresh._command(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", fresh.address, "--topic", "orders", "--group", group),
        *("--consumer-property", "group.protocol=consumer", "--consumer-property", "auto.commit.interval.ms=100"),
    )
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with client.asking(fresh.address) as ask:
            deadline = time.monotonic() + 60
            while client.listed(ask).get(group, ("", "", ""))[1] != "Stable":
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.2)
        code, rows, _ = apply("--yes", plan=plan)
        whys = {row["why"] for row in rows.values()}
        assert code == 1 and {row["result"] for row in rows.values()} == {"refused"}
        assert whys == {"the group has members (it is Stable): stop its consumers, and run the command again"}
    finally:
        process.terminate()
        process.wait()


def test_offsets_out_of_range(fresh, apply, plan_file, tmp_path):
    """Below the log start offset and beyond the log end offset: refused, skipped, or clamped."""
    from kafka import KafkaAdminClient, TopicPartition

    with contextlib.closing(KafkaAdminClient(bootstrap_servers=fresh.address)) as admin:
        admin.delete_records({TopicPartition(TRIMMED, 0): 20})
    group = "clamped"

    def change(groups):
        only("shop-5")(groups)
        groups["shop-5"]["to"] = group
        groups["shop-5"]["offsets"] = {
            "trimmed-0": {"offset": 19},
            "payments-0": {"offset": RECORDS + 1},
            "orders-0": {"offset": RECORDS},
        }

    plan = edited(plan_file, tmp_path, change)
    code, rows, _ = apply(plan=plan)
    below = "offset 19 is below the log start offset 20 of trimmed-0"
    beyond = f"offset {RECORDS + 1} is beyond the log end offset {RECORDS} of payments-0"
    assert code == 1
    assert {key[1]: (row["result"], row["why"]) for key, row in rows.items()} == {
        "trimmed-0": ("refused", below),
        "payments-0": ("refused", beyond),
        "orders-0": ("would_set", None),
    }
    code, rows, _ = apply("--out-of-range", "skip", "--yes", plan=plan)
    assert code == 0 and {row["result"] for row in rows.values()} == {"skipped", "set"}
    code, rows, _ = apply("--out-of-range", "clamp", "--yes", plan=plan)
    assert code == 0 and rows[group, "trimmed-0"]["why"] == f"{below}: it becomes 20"
    with client.asking(fresh.address) as ask:
        offsets = without_epochs(client.offsets(ask, [group], stable=True))[group]
    assert {key: offset for key, (offset, _) in offsets.items()} == {
        "trimmed-0": 20,
        "payments-0": RECORDS,
        "orders-0": RECORDS,
    }


def test_a_negative_offset(fresh, apply, plan_file, tmp_path):
    """A broker stores what a client commits, also -5 and the smallest int64. `apply` does not set such an offset."""
    lowest = -(2**63)
    with client.asking(fresh.address) as ask:
        assert client.commit(ask, "negative", "orders", 0, -5) == 0
        assert client.commit(ask, "negative", "orders", 1, lowest) == 0
        stored = without_epochs(client.offsets(ask, ["negative"], stable=False))["negative"]
    assert {key: offset for key, (offset, _) in stored.items()} == {"orders-0": -5, "orders-1": lowest}

    def change(groups):
        only("shop-7")(groups)
        groups["shop-7"].update(to="negative", offsets={"orders-0": {"offset": -1}, "orders-1": {"offset": 4}})

    code, rows, _ = apply("--yes", "--out-of-range", "clamp", plan=edited(plan_file, tmp_path, change))
    assert code == 1 and rows["negative", "orders-1"]["result"] == "set"
    row = rows["negative", "orders-0"]
    why = "offset -1 of orders-0 is out of range: consumers treat a negative offset as no offset"
    assert (row["now"], row["result"], row["why"]) == (-5, "refused", why)


def test_through_tls_and_sasl(fresh, apply, plan_file, tmp_path, monkeypatch):
    """The superuser sets offsets through SASL_SSL. Each offset of a user without rights is refused in one line."""
    monkeypatch.setenv("KAFKAGROUPS_PASSWORD", PASSWORD)
    tls = ("--security-protocol", "SASL_SSL", "--cafile", fresh.ca_file)
    security = (*tls, "--sasl-mechanism", "PLAIN", "--user")
    plan = edited(plan_file, tmp_path, lambda groups: [only("shop-6")(groups), groups["shop-6"].update(to="secure")])
    code, rows, _ = apply("--yes", *security, "guest", plan=plan, address=fresh.secure_address)
    assert code == 1 and {row["why"] for row in rows.values()} == {"GROUP_AUTHORIZATION_FAILED"}
    code, rows, _ = apply("--yes", *security, "admin", plan=plan, address=fresh.secure_address)
    assert code == 0 and {row["result"] for row in rows.values()} == {"set"}
    (error,) = {
        row.why for row in kg.apply_rescue(read_plan(plan), fresh.secure_address, security=guest(fresh), writes=True)
    }
    assert error == "GROUP_AUTHORIZATION_FAILED"


def guest(broker):
    from kafkagroups.repair.client import Security

    return Security(protocol="SASL_SSL", mechanism="PLAIN", user="guest", password=PASSWORD, cafile=str(broker.ca_file))
