"""`explain` gives the same answer with both engines: the compiled one replays only the batches of the group."""

import os
import random
from dataclasses import asdict

import pytest

import kafkagroups as kg
from kafkagroups.kernels import read_group, second_reading
from kafkagroups.log.batch import LogRecord
from kafkagroups.log.record_batch import encode_batch
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record, encode
from tests.captured import captured
from tests.cases import case
from tests.history.counting import count_results
from tests.kernels.random_logs import random_log
from tests.kernels.test_equal import some_folders
from tests.releases.sequences import encode_log, random_sequence

LONG = os.environ.get("KG_PROFILE") == "long"
RULES = (
    ("new", "4.3.1"),
    ("new", "4.4.0"),
    ("new", "4.0.1"),
    ("new", "3.9.2"),
    ("classic", "3.9.2"),
    ("classic", "1.0.1"),
    ("classic", "0.9.0.1"),
)


def explain_both(path, group, coordinator, kafka, **options):
    """Return what `explain` gives with the readable engine, and with the compiled one."""
    options |= {"coordinator": coordinator, "kafka": kafka}
    return [asdict(kg.explain(path, group, engine=engine, **options)) for engine in ("python", "compiled")]


@pytest.fixture
def count_compiled(monkeypatch):
    """Count the logs that the compiled engine could load."""
    return count_results(monkeypatch, "fold_if_possible")


@pytest.mark.slow
@pytest.mark.parametrize("family", ["runs", "crafted", "cleaner", "releases"])
def test_captured_groups_have_the_same_history(family, count_compiled):
    """Up to eight groups of every captured log, and a group that no log contains."""
    for folder in some_folders(family):
        for coordinator, kafka in (("classic", "3.9.2"), ("new", "4.3.1")):
            with case((folder.relative_to(captured(family)), coordinator)):
                groups = list(kg.load(folder, coordinator, kafka).partitions_of)
                for group in [*random.Random(1).sample(groups, min(8, len(groups))), "no group"]:
                    readable, compiled = explain_both(folder, group, coordinator, kafka)
                    assert compiled == readable, group
    assert count_compiled


@pytest.mark.slow
def test_random_groups_have_the_same_history(tmp_path, count_compiled):
    """1,000 random logs (20,000 in the long profile) of offsets or of all record types, with and without a cut."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    for seed in range(20_000 if LONG else 1_000):
        rnd = random.Random(seed)
        log = random_log(seed) if seed % 2 else encode_log(random_sequence(seed))
        (folder / f"{0:020}.log").write_bytes(log)
        coordinator, kafka = rnd.choice(RULES)
        options = {"until": rnd.randrange(60)} if rnd.random() < 0.3 else {}
        groups = list(kg.load(folder, coordinator, kafka, engine="python").partitions_of)
        for group in rnd.sample(groups, min(3, len(groups))):
            with case((seed, group, coordinator, kafka)):
                readable, compiled = explain_both(folder, group, coordinator, kafka, **options)
                assert compiled == readable
    assert len(count_compiled) > 300


def commit(offset, group, partition=0):
    key, value = encode(
        Record(1, OffsetCommitKey(group, "orders", partition), OffsetCommitValue(offset=offset, commit_timestamp=5), 3)
    )
    return LogRecord(offset, 5, key, value)


@pytest.mark.parametrize("attributes", [0, 1, 4])
def test_a_log_of_many_pieces_and_producers(attributes, tmp_path, monkeypatch, count_compiled):
    """Batches that cross the pieces of a file, more producers than the hash table has room for, and two codecs."""
    monkeypatch.setattr(second_reading, "PIECE_BYTES", 1000)
    monkeypatch.setattr(read_group, "FOUND_ROWS", 3)
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    batches = []
    for offset in range(0, 600, 2):
        records = [commit(offset, "mine" if offset % 3 else "other"), commit(offset + 1, "other", 1)]
        batches.append(encode_batch(records, attributes=attributes | 0x10, producer_id=offset, producer_epoch=0))
        if offset % 5 == 0:
            marker = LogRecord(offset + 600, 5, b"\0\0\0\1", b"\0\0\0\0\0\0")
            batches.append(encode_batch([marker], attributes=0x30, producer_id=offset, producer_epoch=0))
    ordered = sorted(batches, key=lambda batch: int.from_bytes(batch[:8], "big"))
    (folder / f"{0:020}.log").write_bytes(b"".join(ordered))
    for coordinator, kafka in (("new", "4.3.1"), ("classic", "3.9.2")):
        readable, compiled = explain_both(folder, "mine", coordinator, kafka)
        assert compiled == readable
        assert {entry["fate"].value for entry in compiled["history"]} >= {"wins", "superseded", "pending", "marker"}
    assert len(count_compiled) == 2


@pytest.mark.parametrize("ending", [b"\0\0\0\1", b"\0\0\0\0"])
def test_a_transaction_without_a_producer_id(ending, tmp_path):
    """The classic coordinator decides by the transactional bit: the marker of producer -1 ends its transaction."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    marker = LogRecord(1, 5, ending, b"\0\0\0\0\0\0")
    log = encode_batch([commit(0, "g")], attributes=0x10) + encode_batch([marker], attributes=0x30)
    (folder / f"{0:020}.log").write_bytes(log)
    for coordinator, kafka in (("classic", "3.9.2"), ("new", "4.3.1")):
        readable, compiled = explain_both(folder, "g", coordinator, kafka)
        assert compiled == readable
    assert [entry["fate"].value for entry in explain_both(folder, "g", "classic", "3.9.2")[1]["history"]][1] == "marker"


@pytest.mark.parametrize("group", ["\ufffd", "\ud800", "", "a" * 40_000, "a" * 70_000], ids=lambda group: group[:2])
def test_a_group_id_that_has_no_single_encoding(group, tmp_path):
    """Java reads different wrong bytes as U+FFFD, so no bytes can be searched for it. No key has a very long id."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    wrong = commit(0, "ab")
    records = [wrong._replace(key=wrong.key.replace(b"ab", b"\xff\xfe")), commit(1, "\ufffd"), commit(2, "")]
    (folder / f"{0:020}.log").write_bytes(encode_batch(records))
    readable, compiled = explain_both(folder, group, "new", "4.3.1")
    assert compiled == readable and bool(compiled["history"]) == (group in ("\ufffd", ""))
