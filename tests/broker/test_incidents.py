"""Real brokers load the logs of the incidents of lesson 14, and answer what the package says.

Each log is placed into a broker that was stopped. The broker of an incident has the version that the symptoms name, or
the nearest version whose jars are here.
"""

import json
import re
import shutil
import subprocess
import time

import pytest
from msgspec.structs import replace

import kafkagroups as kg
from kafkagroups.course import rescue_broker
from kafkagroups.course.exercises.catalog import EXERCISES
from kafkagroups.course.exercises.incidents import (
    after_the_upgrade,
    dark_monitor,
    dead_cluster,
    empty_monday,
    endless_unstable,
    lag_of_the_dead,
    offset_goes_back,
    parse_errors,
)
from kafkagroups.course.exercises.incidents.incident import INCIDENTS, SEED
from kafkagroups.course.lesson_folders import read_output
from kafkagroups.course.real_broker import RealBroker
from kafkagroups.loading.groups import offsets_json, pending_json
from tests.broker.broker import CLASSIC, VERSIONS, Broker, need_jars, run_dump_tool
from tests.handmade import GroupMetadataKey, encode_batch

pytest.importorskip("kafka", reason="no kafka-python")
from tests.broker import client

pytestmark = pytest.mark.broker

PARTITIONS = 50
NO_OFFSETS = ({}, 69)
"""What brokers answer for a group without offsets: nothing, or GROUP_ID_NOT_FOUND."""
BY_VERSION = {
    version: [incident for incident in INCIDENTS if version == (CLASSIC if incident.kafka < "4" else "4.3.1")]
    for version in VERSIONS
}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A function that starts a broker of a version on the logs in a folder, with some settings changed."""
    brokers = {}
    properties = {}

    def on_logs(version, logs, settings=None):
        need_jars(version)
        if version not in brokers:
            broker = brokers[version] = Broker(version, tmp_path_factory.mktemp(f"incidents-{version}-"), PARTITIONS)
            client.create_offsets_topic(broker)
            properties[version] = (broker.folder / "server.properties").read_text()
        broker = brokers[version]
        broker.stop()
        changed = "".join(f"{name}={value}\n" for name, value in (settings or {}).items())
        (broker.folder / "server.properties").write_text(properties[version] + changed)
        for partition in range(PARTITIONS):
            for segment in broker.partition(partition).glob("*.log"):
                segment.unlink()
        broker.place(logs)
        broker.start()
        broker.wait_until_loaded()
        return broker

    yield on_logs
    for broker in brokers.values():
        broker.stop()
        shutil.rmtree(broker.folder, ignore_errors=True)


@pytest.mark.parametrize(
    ("version", "incident", "replica"),
    [
        pytest.param(version, each, replica, id=f"{each.name} {replica}".strip())
        for version, those in BY_VERSION.items()
        for each in those
        for replica in each.replicas
    ],
)
def test_a_broker_answers_what_we_load(start, version, incident, replica, tmp_path):
    """Failed partitions and every committed or pending offset are those of the package, for the same bytes."""
    incident.write(tmp_path, SEED)
    logs = tmp_path / replica
    broker = start(version, logs)
    coordinator = "classic" if version == CLASSIC else "new"
    ours = kg.load(logs, coordinator=coordinator, kafka=version, partitions=PARTITIONS)
    assert broker.failed() == set(ours.failed)
    names = sorted(ours.partitions_of)
    assert names
    with client.asking(broker.address) as ask:
        theirs = client.offsets(ask, names, stable=True)
    for name in names:
        if kg.partition_for(name, PARTITIONS) in ours.failed:
            continue
        assert theirs[name] == say_offsets(ours, name) or (name not in ours and theirs[name] in NO_OFFSETS), name


def read_tombstones(log, first_offset=0):
    """Return the time, the offset, the group and the key of each tombstone from an offset on."""
    return [
        (record.timestamp, record.offset, kg.decode(record.key, None).key.group, record.key)
        for batch in kg.open_log(log)
        for record in batch.records
        if batch.base_offset >= first_offset and record.value is None
    ]


def test_empty_monday_a_broker_deletes_the_same_offsets(start, tmp_path):
    """Without the tombstones of the weekend, a broker with the same retention writes them again."""
    empty_monday.write(tmp_path / "whole", SEED)
    whole = tmp_path / "whole" / "__consumer_offsets-30"
    deleted = read_tombstones(whole)
    first_offset = deleted[0][1]
    kg.cut(whole, tmp_path / "cut" / whole.name, first_offset)
    # This broker runs later than Monday. Its retention begins at the same moment as the retention on Monday.
    monday_ms = max(batch.max_timestamp for batch in kg.open_log(whole))
    later_ms = time.time() * 1000 - monday_ms
    minutes = int(later_ms / 60_000) + empty_monday.RETENTION_HOURS * 60
    settings = {"offsets.retention.minutes": minutes, "offsets.retention.check.interval.ms": 1000}
    broker = start("4.3.1", tmp_path / "cut", settings)
    broker.wait_for(r"Generated \d+ tombstone")
    broker.stop()
    written = read_tombstones(broker.partition(30), first_offset)
    assert sorted(key for *_, key in written) == sorted(key for *_, key in deleted)


@pytest.mark.parametrize("version", VERSIONS)
def test_lag_of_the_dead_only_the_new_coordinator_writes_a_tombstone(start, version, tmp_path):
    """3.9.2 deletes the groups with the tombstones of the log. 4.3.1 writes one more, for the simple group."""
    lag_of_the_dead.write(tmp_path / "whole", SEED)
    whole = tmp_path / "whole" / "__consumer_offsets-14"
    dead = lag_of_the_dead.DEAD_GROUP
    groups = [dead, *lag_of_the_dead.DELETED_GROUPS]
    clean_up_ms = lag_of_the_dead.START_MS + lag_of_the_dead.DELETION * lag_of_the_dead.MINUTE_MS
    deleted = [each for each in read_tombstones(whole) if each[0] == clean_up_ms]
    first_offset = deleted[0][1]
    kg.cut(whole, tmp_path / "cut" / whole.name, first_offset)
    broker = start(version, tmp_path / "cut")
    with client.asking(broker.address) as ask:
        assert client.delete_groups(ask, groups) == dict.fromkeys(groups, client.NONE)
    broker.stop()
    expected = [key for *_, group, key in deleted if group in groups]
    if version != CLASSIC:
        expected += [key for _, _, group, key in read_tombstones(whole) if group == dead and is_group_key(key)]
    written = read_tombstones(broker.partition(14), first_offset)
    assert sorted(key for *_, key in written) == sorted(expected)


def is_group_key(key):
    return isinstance(kg.decode(key, None).key, GroupMetadataKey)


def test_after_the_upgrade_a_broker_deletes_the_same_offsets(start, tmp_path):
    """Incident 7: a broker with an endless retention deletes the same commits, because their expire time is over."""
    after_the_upgrade.write(tmp_path / "whole", SEED)
    whole = tmp_path / "whole" / "__consumer_offsets-44"
    tombstones = read_tombstones(whole)
    first_ms, first_offset, *_ = tombstones[0]
    deleted = [key for time_ms, _, _, key in tombstones if time_ms == first_ms]
    kg.cut(whole, tmp_path / "cut" / whole.name, first_offset)
    broker = start(CLASSIC, tmp_path / "cut", {"offsets.retention.check.interval.ms": 1000})
    broker.wait_for(rf"Removed {sum(not is_group_key(key) for key in deleted)} expired offsets")
    broker.stop()
    written = read_tombstones(broker.partition(44), first_offset)
    assert sorted(key for *_, key in written) == sorted(deleted)


def test_dark_monitor_the_formatter_of_3_9_2_reads_version_4(start, tmp_path):
    """Incident 4: the console consumer prints what `dump --format formatter` prints: version 4, without a topic id."""
    dark_monitor.write(tmp_path, SEED)
    log = tmp_path / "__consumer_offsets-9"
    count = sum(len(batch.records) for batch in kg.open_log(log) if not batch.is_control)
    broker = start(CLASSIC, tmp_path)
    command = broker._command(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", broker.address, "--topic", "__consumer_offsets", "--partition", "9"),
        *("--offset", "earliest", "--max-messages", str(count)),
        *("--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"),
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    printed = re.findall(r'\{"key":.*?\}\}\}', done.stdout)  # This tool ends no line after a record.
    assert len(printed) == count, done.stdout[-1000:] + done.stderr[-1000:]
    ours = read_output(f"kafkagroups dump --format formatter --kafka 3.9.2 {log.name}", tmp_path)
    assert printed == ours.splitlines()
    versions = {json.loads(line)["value"]["version"] for line in printed}
    assert versions == {1, 3, 4}
    assert not any("topicId" in line for line in printed)


def test_parse_errors_the_dump_tool_prints_markers(tmp_path):
    """Incident 5: Kafka's own tool reads the records that the program cannot read, and calls them markers."""
    need_jars(CLASSIC)
    parse_errors.write(tmp_path, SEED)
    [segment] = (tmp_path / "__consumer_offsets-30").glob("*.log")
    printed = run_dump_tool(CLASSIC, "--offsets-decoder", "--files", segment).stdout
    markers = re.findall(r"^\| offset: (\d+) .* endTxnMarker: (COMMIT|ABORT) ", printed, re.MULTILINE)
    assert len(markers) == EXERCISES["parse_unreadable"].correct
    assert int(markers[0][0]) == EXERCISES["parse_first_offset"].correct
    assert sum(kind == "ABORT" for _, kind in markers) == EXERCISES["parse_second_message"].correct


def say_offsets(ours, name):
    """Return what a stable OffsetFetch of all topics should answer for a group."""
    if name not in ours:
        return {}
    pending = pending_json(ours[name].pending)
    return {
        partition: client.UNSTABLE if partition in pending else (said["offset"], said["leader_epoch"], said["metadata"])
        for partition, said in offsets_json(ours[name].offsets).items()
    }


def test_kafkas_tool_ends_the_hanging_transactions(start, tmp_path):
    """Incident 8: the offsets that wait become those of the solution. The open import still waits."""
    group = endless_unstable.GROUP
    names = {group: [f"receipts-{number}" for number in range(6)], endless_unstable.IMPORT: ["prices-0"]}
    endless_unstable.write(tmp_path, SEED)
    log = tmp_path / f"__consumer_offsets-{endless_unstable.PARTITION}"
    hanging = {
        transaction.producer_id: transaction.first_offset
        for transaction in kg.stats(log).partitions[endless_unstable.PARTITION].open_transactions
        if transaction.groups == [group]
    }
    broker = start(CLASSIC, tmp_path)
    with client.asking(broker.address) as ask:
        before = client.named_offsets(ask, names)
    assert [name for name, said in before[group].items() if said == client.UNSTABLE] == ["receipts-2", "receipts-3"]

    for count, first_offset in enumerate(hanging.values(), 1):
        broker._run(
            "org.apache.kafka.tools.TransactionsCommand",
            *("--bootstrap-server", broker.address, "abort", "--topic", "__consumer_offsets"),
            *("--partition", str(endless_unstable.PARTITION), "--start-offset", str(first_offset)),
        )
        with client.asking(broker.address) as ask:
            after = client.named_offsets(ask, names)
        assert (after[group]["receipts-3"] == client.UNSTABLE) == (count < EXERCISES["unstable_aborts"].correct)
    assert after[group]["receipts-3"][0] == EXERCISES["unstable_offset_after"].correct
    assert {name: said for name, said in after[group].items() if before[group][name] != client.UNSTABLE} == {
        name: said for name, said in before[group].items() if said != client.UNSTABLE
    }
    assert after[endless_unstable.IMPORT] == {"prices-0": client.UNSTABLE}

    ended = tmp_path / "ended"
    kg.edit(log, ended / log.name, [("marker", f"abort:{producer_id}") for producer_id in hanging])
    ours = kg.load(ended, coordinator="classic", kafka=CLASSIC, partitions=PARTITIONS)
    assert say_offsets(ours, group) == after[group]


def test_a_deleted_offset_comes_back_at_a_failover(start, tmp_path):
    """Incident 9: after a pass of the cleaner, there is no offset of receipts-2. Then a broker repeats the evening."""
    group = offset_goes_back.GROUP
    offset_goes_back.write(tmp_path / "whole", SEED)
    name = f"__consumer_offsets-{offset_goes_back.PARTITION}"
    cleaned = tmp_path / "cleaned"
    kg.edit(tmp_path / "whole" / name, cleaned / name, ["roll", ("clean", offset_goes_back.CLEANED_MS)])
    broker = start(CLASSIC, cleaned)
    with client.asking(broker.address) as ask:
        loaded = client.offsets(ask, [group], stable=True)[group]
        assert "receipts-2" not in loaded
        assert loaded["receipts-1"][0] == EXERCISES["back_race"].correct

        assert client.create_topic(ask, "receipts", offset_goes_back.PROCESSES) == client.NONE
        assert client.commit(ask, group, "receipts", 2, offset_goes_back.STUCK_AT) == client.NONE
        transaction = client.Transaction(ask, "loyalty-ledger-2", group)
        assert transaction.commit("receipts", 2, offset_goes_back.STUCK_AT) == client.NONE
        assert client.delete_offset(ask, group, "receipts", 2) == (client.NONE, client.NONE)
        transaction.end(commits=True)
        _wait_for_marker(broker.partition(offset_goes_back.PARTITION), transaction.producer["producer_id"])
        before = client.offsets(ask, [group], stable=True)[group]
    broker.stop()
    broker.start()
    broker.wait_until_loaded()
    with client.asking(broker.address) as ask:
        after = client.offsets(ask, [group], stable=True)[group]
    assert before == loaded
    assert after == loaded | {"receipts-2": (offset_goes_back.STUCK_AT, -1, "")}


def _wait_for_marker(log, producer_id):
    """Wait until the last batch of a log is a marker of a producer."""
    deadline = time.monotonic() + client.ANSWER_SECONDS
    while True:
        *_, last = kg.open_log(log)
        if last.is_control and last.producer_id == producer_id:
            return
        assert time.monotonic() < deadline, last
        time.sleep(0.1)


# Incident 10.


@pytest.fixture(scope="module")
def dead_logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dead")
    dead_cluster.write(folder, SEED)
    return folder


def list_stopping_records(broker):
    """Return the offsets of the records that the broker names in its errors about partition 20."""
    lines = [line for line in broker.log.splitlines() if "Failed to load metadata from __consumer_offsets-20" in line]
    return [int(offset) for line in lines for offset in re.findall(r"DefaultRecord\(offset=(\d+)", line)]


def test_dead_cluster_a_broker_names_one_record(start, dead_logs, tmp_path):
    """The broker names the first of two records. If only this one is repaired, it names the second one."""
    assert list_stopping_records(start("4.3.1", dead_logs)) == [295]

    shutil.copytree(dead_logs, tmp_path / "logs")
    segment = tmp_path / "logs" / "__consumer_offsets-20" / f"{0:020}.log"
    repaired = []
    for batch in kg.open_log(dead_logs / "__consumer_offsets-20"):
        records = list(batch.records)
        for index, record in enumerate(records):
            if record.offset == 295:
                records[index] = replace(record, value=records[0].value)
        repaired.append(encode_batch(records))
    segment.write_bytes(b"".join(repaired))
    assert list_stopping_records(start("4.3.1", tmp_path / "logs")) == [EXERCISES["cluster_second_record"].correct]


def test_dead_cluster_loads_in_the_classic_coordinator(start, dead_logs):
    """A 3.9.2 broker skips both records, because it does not know their types. It answers for the three groups."""
    broker = start(CLASSIC, dead_logs)
    assert broker.failed() == set()
    groups = ["night-audit", "receipt-mail", "water-filter"]
    with client.asking(broker.address) as ask:
        answers = client.offsets(ask, groups, stable=True)
    theirs = {(group, name): offset for group in groups for name, (offset, *_) in answers[group].items()}
    recorded = rescue_broker.read_recorded_answers().offsets
    assert theirs == {(group, str(key)): offset for (group, key), offset in recorded.items() if group in groups}


def test_dead_cluster_the_rescue(dead_logs, tmp_path, monkeypatch, capsys):
    """The corrected plan gives exactly the recorded answers, and the broker is stopped."""
    need_jars(rescue_broker.KAFKA)
    monkeypatch.delenv("KAFKAGROUPS_BROKER", raising=False)
    processes = []

    class Watched(RealBroker):
        def start(self):
            super().start()
            processes.append(self.process)

    monkeypatch.setattr(rescue_broker, "RealBroker", Watched)
    plan_file = tmp_path / "plan.json"
    read_output(rescue_broker.PLAN_COMMAND.replace("plan.json", str(plan_file)), dead_logs)
    plan = json.loads(plan_file.read_text())
    rescue_broker.correct_plan(plan)
    plan["groups"]["tax-export"]["offsets"]["tax-0"]["offset"] = 5000
    plan_file.write_text(json.dumps(plan))
    rescue_broker.rescue_into_new_broker(plan_file)
    shown = capsys.readouterr().out.splitlines()
    assert "new broker" in next(line for line in shown if "topic-partition" in line)
    assert "Refused: tax-export, tax-0: offset 5000 is beyond the log end offset 1300 of tax-0" in shown
    assert [line.split()[1:4] for line in shown if line.startswith("✗")] == [["tax-export", "tax-0", "none"]]
    assert shown[-1] == "50 of 51 offsets are right."
    [process] = processes
    assert process.poll() is not None


def test_a_broker_is_stopped_after_an_interrupt(tmp_path):
    """Ctrl-C in a lesson stops the broker, and its folder can be removed."""
    need_jars("4.3.1")
    with pytest.raises(KeyboardInterrupt), RealBroker("4.3.1", tmp_path, 1) as broker:
        broker.start()
        process = broker.process
        raise KeyboardInterrupt
    assert process.poll() is not None
    assert broker.process is None
