"""Brokers load segments that this package wrote and compacted. They answer like our loader for the same bytes.

`pull` copies these segments back, byte for byte. The expectations come from the broker: its answers, and the bytes on
its disk. The tests are in one file, so that each version starts only once for all tests.
"""

import base64
import json
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import kafkagroups as kg
from kafkagroups import spark as kgs, synth
from kafkagroups.course.real_broker import QUICK, find_jars
from kafkagroups.loading.groups import group_json, offsets_json, pending_json
from kafkagroups.repair.pull import pull as pull_topic
from kafkagroups.spark.session import find_java
from tests.broker.broker import CLASSIC, PASSWORD
from tests.command import main
from tests.handmade import CompressionType, read_batches
from tests.spark.tables import collected
from tests.spark.test_kafka_rows import write_rows

pytest.importorskip("kafka", reason="no kafka-python")
from tests.broker import client, material

pytestmark = pytest.mark.broker

READ_ROWS = Path(__file__).with_name("ReadRows.java")
LIVE = "a live group"
"""Committed while the broker runs; no log that it loaded has it."""
TIMERS = ("b32", "o-session-0")
"""Crafted cases whose states come from a broker's limits and timers."""
NOT_IN_ROWS = ("t-idem", "t-2p-pend-new", "t-txn-nopid", "t-txn-tomb-aborted")
"""Crafted cases with records that no coordinator writes: a producer id without a transaction or the other way round, a
transactional tombstone. Rows show neither producer ids nor aborted records."""
NO_ANSWER = "b31c"
"""A Stable group without a protocol: DescribeGroups answers an error, 3.9.2 for every group in the same request."""


@pytest.fixture(scope="module")
def ours(loaded):
    """What we say of the folder that the broker has loaded."""
    broker, folder = loaded
    coordinator = "classic" if broker.version == CLASSIC else "new"
    return kg.load(folder, coordinator=coordinator, kafka=broker.version, partitions=broker.partitions)


@pytest.fixture(scope="module")
def ask(loaded):
    with client.asking(loaded[0].address) as ask:
        yield ask


def failed(ours, group):
    """Whether the group's own partition could not be loaded; the new coordinator then answers nothing about it."""
    return ours.coordinator == "new" and kg.partition_for(group, 400) in ours.failed


def ours_of_all_topics(ours, group, *, stable):
    """What OffsetFetch of all topics should answer for a group."""
    if group not in ours:
        return {}
    shown = offsets_json(ours[group].offsets)
    unstable = set(pending_json(ours[group].pending)) if stable else set()
    return {
        tp: client.UNSTABLE if tp in unstable else (said["offset"], said["leader_epoch"], said["metadata"])
        for tp, said in shown.items()
    }


def test_failed_loads(loaded, ours):
    """The partitions whose load fails there are those of which we say so."""
    assert loaded[0].failed() == set(ours.failed)


@pytest.mark.parametrize("stable", [False, True])
def test_committed_offsets(ours, ask, stable):
    """OffsetFetch of all topics answers the offsets that we load, and which of them are unstable."""
    theirs = client.offsets(ask, sorted(ours.partitions_of), stable=stable)
    mine = {}
    for group, answer in theirs.items():
        if failed(ours, group):
            mine[group] = answer if answer in (client.LOADING, client.NOT_COORDINATOR) else "not loaded"
        elif answer == client.GROUP_ID_NOT_FOUND and (group not in ours or ours[group].type == "share"):
            mine[group] = answer
        else:
            mine[group] = ours_of_all_topics(ours, group, stable=stable)
    assert len(theirs) == len(ours.partitions_of) and mine == theirs


def test_pending_offsets(ours, ask):
    """OffsetFetch of named partitions with requireStable answers UNSTABLE_OFFSET_COMMIT where we say pending."""
    pending = {
        group: set(pending_json(holder.pending))
        for group, holder in [*ours.items(), *ours.orphans.items()]
        if holder.pending and not failed(ours, group)
    }
    theirs = client.named_offsets(ask, pending)
    assert (
        pending
        and {group: {tp for tp, said in answer.items() if said == client.UNSTABLE} for group, answer in theirs.items()}
        == pending
    )


def test_synthetic_offsets(ours, ask, tmp_path):
    """The broker knows as many groups and offsets of a synthetic partition as its writer said."""
    for codec in CompressionType:
        names = sorted(group for group in ours.partitions_of if group.startswith(material.synthetic_groups(codec)))
        prefix = names[0][: -len("group-000000")]
        written = synth.write(tmp_path / codec.name, prefix=prefix, **material.SYNTHETIC)
        assert len(names) == written["groups"]
        theirs = client.offsets(ask, names, stable=False)
        assert sum(len(offsets) for offsets in theirs.values()) == written["live_offsets"]


def test_described_groups(ours, ask):
    """DescribeGroups answers state, protocol and members of every classic group, and Dead for all others."""
    theirs = {}
    mine = {}
    asked = sorted(group for group in ours.partitions_of if not group.startswith((*TIMERS, NO_ANSWER)))
    for group, answer in client.describe(ask, asked).items():
        if failed(ours, group):
            assert answer.error_code in (client.LOADING, client.NOT_COORDINATOR), group
            continue
        theirs[group] = (answer.group_state, answer.protocol_type, answer.protocol_data, client.members_of(answer))
        mine[group] = described(ours.get(group))
    assert theirs and mine == theirs


def described(group):
    if group is None or group.type != "classic":
        return ("Dead", "", "", [])
    shown = group_json(group)
    names = ("member_id", "group_instance_id", "client_id", "client_host", "subscription_hex", "assignment_hex")
    members = [tuple(member[name] for name in names) for member in shown["members"]]
    return (shown["state"], shown["protocol_type"], shown["protocol"], members)


def test_listed_groups(ours, ask):
    """ListGroups lists the groups that we load, with protocol type, state and type."""
    theirs = {name: said for name, said in client.listed(ask).items() if not name.startswith((*TIMERS, LIVE))}
    mine = {}
    for name, group in ours.items():
        if not name.startswith(TIMERS):
            shown = group_json(group)
            mine[name] = (shown["protocol_type"], shown["state"], shown["type"])
    assert mine == theirs


# --- pull


def test_rows_of_a_consumer_give_the_offsets_of_the_segments(loaded, ours, tmp_path):
    """`kgs.load` of what Kafka's own consumer gets (read_committed) answers like a load up to the last stable offset.

    Except the keys that `uncertain` names, whose answer depends on where a marker stands.
    """
    broker, folder = loaded
    ends, records = read_rows(broker, tmp_path / "rows.tsv")
    write_rows(tmp_path / "rows.parquet", records)
    rules = {"coordinator": ours.coordinator, "kafka": broker.version, "partitions": broker.partitions}
    rows = kgs.session("local[2]", memory="1g").read.parquet(str(tmp_path / "rows.parquet"))
    tables = kgs.load(rows, **rules)
    theirs = {
        (row["group"], row["topic"], row["topic_partition"]): (row["committed_offset"], row["record_offset"])
        for row in collected(tables.offsets)
    }
    mine = {}
    failed = set()
    for log in folder.iterdir():
        groups = kg.load(log, until=ends[kg.open_log(log).partition], **rules)
        failed |= set(groups.failed)
        for group_id, group in groups.items():
            for place, offset in group.offsets.items():
                mine[group_id, place.topic, place.partition] = (offset.offset, offset.record_offset)
    uncertain = {(row["group"], row["topic"], row["topic_partition"]) for row in collected(tables.uncertain)}
    assert bool(uncertain) == (ours.coordinator == "classic")
    for key in {key for key in (*theirs, *mine) if key in uncertain or key[0].startswith(NOT_IN_ROWS)}:
        theirs.pop(key, None)
        mine.pop(key, None)
    assert len(mine) > 3000 and theirs == mine
    assert {row["partition"] for row in collected(tables.partitions) if row["error"]} == failed


def read_rows(broker, path):
    """Return the last stable offsets and the records of the offsets topic, by partition, as a consumer gets them."""
    command = [find_java().command, *QUICK, "-cp", f"{find_jars(broker.version)}/*", str(READ_ROWS)]
    subprocess.run([*command, broker.address, "__consumer_offsets", str(path)], check=True, timeout=120)
    ends = {}
    records = {}
    for line in path.read_text().splitlines():
        number, offset, *record = line.split("\t")
        if record:
            timestamp, key, value = record
            row = SimpleNamespace(
                offset=int(offset),
                timestamp=int(timestamp),
                key=base64.b64decode(key),
                value=None if value == "-" else base64.b64decode(value),
            )
            records.setdefault(int(number), []).append(row)
        else:
            ends[int(number)] = int(offset)
    return ends, records


@pytest.fixture(scope="module")
def on_disk(loaded, ask):
    """The broker's segments after one more commit: by partition the first name and all bytes."""
    broker, _ = loaded
    assert client.commit(ask, LIVE, "__consumer_offsets", 3, 42) == 0
    segments = {}
    for number in range(broker.partitions):
        files = sorted(broker.partition(number).glob("*.log"))
        segments[str(number)] = (files[0].name, b"".join(file.read_bytes() for file in files))
    return segments


@pytest.fixture
def pull(loaded, tmp_path, capsys, monkeypatch):
    """Runs `kafkagroups pull` on the broker; gives exit code, stdout and stderr."""

    def call(*options, address=None, password=None):
        if password:
            monkeypatch.setenv("KAFKAGROUPS_PASSWORD", password)
        bootstrap = address or loaded[0].address
        code = main(["pull", "--bootstrap", bootstrap, "--out", str(tmp_path / "pulled"), *map(str, options)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err and err.count("\n") == (code != 0)
        return code, out, err

    return call


def brought(folder):
    """By partition, the first segment's name and all bytes."""
    found = {}
    for log in folder.iterdir():
        files = sorted(log.iterdir())
        found[log.name.rpartition("-")[2]] = (files[0].name, b"".join(file.read_bytes() for file in files))
    return found


def test_pull_brings_the_topic_byte_for_byte(on_disk, pull, tmp_path):
    """Every partition is what the broker has on its disk, control batches, gaps and empty batches included."""
    code, out, _ = pull("--json")
    assert code == 0
    assert brought(tmp_path / "pulled") == on_disk
    told = json.loads(out)["partitions"]
    assert {number: part["bytes"] for number, part in told.items()} == {
        number: len(data) for number, (_, data) in on_disk.items()
    }
    assert LIVE in kg.load(tmp_path / "pulled", partitions=400)


def test_pull_in_small_answers(on_disk, pull, tmp_path, monkeypatch):
    """An answer that ends in a part of a batch, or that holds one batch larger than asked for, loses nothing."""
    monkeypatch.setattr("kafkagroups.repair.pull.FETCH_BYTES", 1000)
    largest = max(on_disk, key=lambda number: len(on_disk[number][1]))
    code, _, _ = pull("--partitions", f"{largest},{kg.partition_for(LIVE, 400)}")
    assert code == 0
    pulled = brought(tmp_path / "pulled")
    assert pulled == {number: on_disk[number] for number in pulled} and largest in pulled


def test_an_interrupted_pull_leaves_what_is_whole(loaded, on_disk, tmp_path, monkeypatch):
    """After a Ctrl-C the segment is a prefix of the broker's, and ends with a whole batch."""
    monkeypatch.setattr("kafkagroups.repair.pull.FETCH_BYTES", 1000)
    largest = max(on_disk, key=lambda number: len(on_disk[number][1]))

    def progress(behind, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull_topic(loaded[0].address, tmp_path / "pulled", partitions=[int(largest)], progress=progress)
    name, data = brought(tmp_path / "pulled")[largest]
    assert (
        name == on_disk[largest][0]
        and on_disk[largest][1].startswith(data)
        and 0 < len(data) < len(on_disk[largest][1])
    )
    log = kg.open_log(tmp_path / "pulled" / f"__consumer_offsets-{largest}")
    assert list(log) and log.damage is None


def test_pull_rolls_segments(loaded, on_disk, tmp_path, monkeypatch):
    """Segments are rolled before they grow too large, each named by its first batch."""
    monkeypatch.setattr("kafkagroups.repair.pull.SEGMENT_BYTES", 2000)
    busiest = max(on_disk, key=lambda number: len(list(read_batches(on_disk[number][1]))))
    pull_topic(loaded[0].address, tmp_path, partitions=[int(busiest)])
    folder = tmp_path / f"__consumer_offsets-{busiest}"
    assert brought(tmp_path)[busiest] == on_disk[busiest]
    files = sorted(folder.iterdir())
    assert len(files) > 3
    for file in files[1:]:
        batches = list(kg.open_log(file))
        assert file.name == f"{batches[0].base_offset:020}.log"
        assert file.stat().st_size <= 2000 or len(batches) == 1


def secure(broker, user, mechanism="PLAIN"):
    return (
        *("--security-protocol", "SASL_SSL", "--cafile", broker.ca_file),
        *("--sasl-mechanism", mechanism, *(("--user", user) if user else ()), "--partitions", "0"),
    )


def token_of(user):
    """Return a token without a signature, as a broker accepts it for tests (RFC 7515, appendix A.5)."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": user, "iat": now, "exp": now + 600})
    coded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"{'.'.join(coded)}."


@pytest.mark.parametrize(("mechanism", "user"), [("PLAIN", "admin"), ("OAUTHBEARER", None)])
def test_pull_through_tls_and_sasl(loaded, on_disk, pull, tmp_path, mechanism, user):
    """With a CA file, and a user and a password, or a token, from the environment."""
    broker, _ = loaded
    password = PASSWORD if user else token_of("admin")
    code, _, err = pull(*secure(broker, user, mechanism), address=broker.secure_address, password=password)
    assert (code, err) == (0, "")
    assert brought(tmp_path / "pulled") == {"0": on_disk["0"]}


def test_a_user_who_may_not_read(loaded, pull):
    """Kafka's own word for it."""
    broker, _ = loaded
    code, _, err = pull(*secure(broker, "guest"), address=broker.secure_address, password=PASSWORD)
    assert (code, err) == (2, "kafkagroups: __consumer_offsets: TOPIC_AUTHORIZATION_FAILED\n")


def test_a_wrong_password(loaded, pull):
    """The broker refuses or hangs up: both say that it was the login."""
    broker, _ = loaded
    code, _, err = pull(*secure(broker, "admin"), address=broker.secure_address, password="wrong")
    assert (code == 2 and "SASL_AUTHENTICATION_FAILED" in err) or "closed the connection at the login" in err


def test_the_wrong_security_protocol(loaded, pull):
    """A broker that speaks TLS is asked without."""
    code, _, err = pull(address=loaded[0].secure_address)
    assert code == 2 and "the broker closed the connection: check that this port uses PLAINTEXT" in err


def test_an_unknown_certificate(loaded, pull):
    """The system's authorities do not know a broker's own certificate."""
    code, _, err = pull("--security-protocol", "SSL", address=loaded[0].secure_address)
    assert code == 2 and "certificate verify failed" in err


def test_no_such_partition(pull):
    """The line says how many there are."""
    code, _, err = pull("--partitions", "3,400-402")
    assert (code, err) == (2, "kafkagroups: __consumer_offsets has the partitions 0 to 399, not 400, 401, 402\n")


def test_no_topic(broker):
    """A cluster in which no group has ever committed; asking does not create the topic."""
    assert broker.before == "the cluster has no topic __consumer_offsets: no group has ever committed an offset"
