"""`pull --follow`: every batch that the broker had at a fetch is kept once, and what was missed is a gap with offsets.

The broker's log is a captured one, which grows, is cleaned or is cut between two rounds.
"""

import json
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups.cli import main
from kafkagroups.repair.client import TOPIC
from kafkagroups.repair.follow import follow
from tests.captured import captured
from tests.groups.small_logs import START, offset_record
from tests.handmade import LogRecord, OffsetCommitValue, encode_batch
from tests.repair.fake_broker import FakeBroker

MINUTE = 60_000


@pytest.fixture(scope="module")
def batches():
    """The batches of a captured log, with their bytes."""
    log = captured("runs") / "runs" / "4.3.1-main" / "log" / "__consumer_offsets-0" / "00000000000000000000.log"
    data = log.read_bytes()
    return [(each, data[each.position : each.position + each.size]) for each in kg.open_log(log)]


class Followed:
    """A broker whose log is set between rounds, and the copy."""

    def __init__(self, folder, batches):
        self.folder = folder
        self.batches = batches
        self.broker = FakeBroker()
        self.said = []

    def show(self, *numbers):
        """The broker's log has these batches, and ends where the last of them ends."""
        self.broker.log = b"".join(self.batches[number][1] for number in numbers)
        self.broker.topics[TOPIC] = [(0, self.batches[numbers[-1]][0].next_offset)]

    def rounds(self, *steps):
        for step in steps:
            self.show(*step)
            yield 0

    def run(self, *steps, **options):
        with self.broker.running() as address:
            follow(address, self.folder, report=self.said.append, rounds=self.rounds(*steps), **options)

    @property
    def offsets(self):
        return [batch.base_offset for batch in kg.open_log(self.folder / "__consumer_offsets-0")]

    @property
    def state(self):
        return json.loads((self.folder / "follow.json").read_text())["partitions"]["0"]


@pytest.fixture
def followed(tmp_path, batches):
    return Followed(tmp_path / "history", batches)


def test_what_is_new_is_appended_and_what_was_cleaned_stays(followed, batches):
    """The third round's log lacks the second batch, which the cleaner has removed; the copy keeps it."""
    followed.run([0, 1], [0, 1, 2], [0, 2, 3])
    assert followed.offsets == [batches[number][0].base_offset for number in (0, 1, 2, 3)]
    assert followed.state["gaps"] == []
    segment = next((followed.folder / "__consumer_offsets-0").iterdir())
    assert segment.read_bytes() == b"".join(data for _, data in batches[:4])
    assert kg.load(followed.folder).groups


def test_what_the_cleaner_took_meanwhile_is_a_gap(followed, batches):
    """Between two runs, batches 2 and 3 came and were cleaned away."""
    followed.run([0, 1])
    followed.run([0, 1, 4])
    assert followed.offsets == [batches[number][0].base_offset for number in (0, 1, 4)]
    gap = [batches[1][0].next_offset, batches[4][0].base_offset]
    assert followed.state["gaps"] == [gap]
    state = {"since": batches[1][0].next_offset, "next": gap[0], "gaps": []}  # Killed after the batch was written.
    (followed.folder / "follow.json").write_text(json.dumps({"partitions": {"0": state}}))
    followed.run([0, 1, 4])
    assert followed.state["gaps"] == [gap]
    followed.run([0, 1, 4], [0, 1, 4, 5])
    assert len(followed.state["gaps"]) == 1


def test_a_run_that_was_killed_inside_a_batch_reads_it_again(followed, batches):
    """Cut at every tenth byte of the last batch, with the state file of before or after: nothing is lost or doubled."""
    followed.run([0, 1, 2])
    (segment,) = (followed.folder / "__consumer_offsets-0").iterdir()
    whole = segment.read_bytes()
    state = followed.folder / "follow.json"
    after = state.read_text()
    before = after.replace(f'"next":{batches[2][0].next_offset}', f'"next":{batches[2][0].base_offset}')
    for size in range(len(whole) - len(batches[2][1]), len(whole), 10):
        segment.write_bytes(whole[:size])
        state.write_text(before)
        followed.run([0, 1, 2])
        assert segment.read_bytes() == whole
        assert followed.state["gaps"] == []


def test_a_run_that_was_killed_before_its_first_batch_begins_again(followed, batches):
    """Killed with the lock alone, before the partition's folder, and between the folder and its segment."""
    followed.folder.mkdir()
    (followed.folder / "follow.lock").touch()
    (followed.folder / "follow.json.new").touch()
    followed.run([0])
    partition = followed.folder / "__consumer_offsets-0"
    state = (followed.folder / "follow.json").read_text()
    for has_folder in (False, True):
        for file in partition.iterdir():
            file.unlink()
        if not has_folder:
            partition.rmdir()
        (followed.folder / "follow.json").write_text(state.replace(f'"next":{batches[0][0].next_offset}', '"next":0'))
        followed.run([0, 1])
        assert followed.offsets == [batches[number][0].base_offset for number in (0, 1)]


def test_a_topic_that_was_created_again_is_not_mixed_in(followed, batches):
    """Its log ends before the copy."""
    followed.run([0, 1, 2], [0], [0, 1])
    assert len(followed.offsets) == 3
    assert [line for line in followed.said if "created again or truncated" in line]


def test_old_records_are_cleaned_and_the_answer_stays(followed, batches):
    """Of records older than the limit, the newest of each key stays, as a broker's cleaner keeps it."""
    count = len(batches)
    half = count // 2
    newest_ms = batches[-1][0].max_timestamp

    def rounds():
        followed.show(*range(half))
        yield batches[half - 1][0].max_timestamp
        followed.show(*range(count))
        yield newest_ms
        yield newest_ms + 10 * MINUTE
        yield newest_ms + 20 * MINUTE

    with followed.broker.running() as address:
        follow(address, followed.folder, keep_ms=MINUTE, report=followed.said.append, rounds=rounds())
    kept = kg.load(followed.folder / "__consumer_offsets-0")
    log = followed.folder / "log.log"
    log.write_bytes(b"".join(data for _, data in batches))
    whole = kg.load(log)
    assert {name: kept[name].offsets for name in kept} == {name: whole[name].offsets for name in whole}
    assert [line for line in followed.said if "cleaned" in line]
    assert len(followed.offsets) < count


def test_gaps_are_forgotten_where_the_copy_was_cleaned(followed, batches):
    """`follow.json` does not grow for ever with a limit of age. A gap after the cleaned segments stays listed.

    Half a minute lies between the times of batches 10 and 11.
    """
    followed.run([0, 1])
    followed.run([0, 1, 4])
    early, later, last = (
        [batches[before][0].next_offset, batches[after][0].base_offset] for before, after in ((1, 4), (4, 11), (11, 13))
    )

    def rounds():
        followed.show(0, 1, 4)
        yield batches[10][0].max_timestamp
        assert followed.state["gaps"] == [early]
        followed.show(0, 1, 4, 11, 13)
        yield batches[13][0].max_timestamp

    with followed.broker.running() as address:
        follow(address, followed.folder, keep_ms=MINUTE // 6, report=followed.said.append, rounds=rounds())
    followed.run([0, 1, 4, 11, 13])
    assert followed.state["gaps"] == [later, last]


def test_a_wrong_checksum_of_the_broker_is_copied_and_never_cut(followed, batches):
    """The copy has the bytes of the broker. A restart keeps all of it, and a limit of age cleans nothing."""
    followed.run([0, 1, 2, 3])
    (segment,) = (followed.folder / "__consumer_offsets-0").iterdir()
    broken = bytearray(segment.read_bytes())
    broken[batches[0][0].size + 70] ^= 1
    segment.write_bytes(broken)
    later = batches[-1][0].max_timestamp + 10 * MINUTE

    def rounds():
        followed.show(0, 1, 2, 3)
        yield later
        yield later + MINUTE

    with followed.broker.running() as address:
        follow(address, followed.folder, keep_ms=MINUTE, report=followed.said.append, rounds=rounds())
    kept = b"".join(file.read_bytes() for file in sorted((followed.folder / "__consumer_offsets-0").glob("*.log")))
    assert kept == bytes(broken)
    assert [line for line in followed.said if "not cleaned, because it has damaged bytes" in line]
    segment.write_bytes(bytes(broken[: batches[0][0].size]) + bytes(100) + bytes(broken[batches[0][0].size :]))
    with pytest.raises(kg.UsageError, match="follow the topic into a new folder"):
        followed.run([0, 1, 2, 3])


def test_cleaning_stops_at_an_open_transaction(tmp_path):
    """A pending commit does not remove the committed offset before it (LogCleanerManager.cleanableOffsets, 4.3.1)."""
    values = [OffsetCommitValue(5, commit_timestamp=START), OffsetCommitValue(9, commit_timestamp=START)]
    keyed = [LogRecord(offset, START, *offset_record(0, value, "g")) for offset, value in enumerate(values)]
    data = [encode_batch([keyed[0]]), encode_batch([keyed[1]], producer_id=7, producer_epoch=0, attributes=0x10)]
    log = tmp_path / "__consumer_offsets-0"
    log.mkdir()
    (log / f"{0:020}.log").write_bytes(b"".join(data))
    followed = Followed(tmp_path / "history", [(each, each) for each in ()])
    followed.broker.log = b"".join(data)
    followed.broker.topics[TOPIC] = [(0, 2)]
    with followed.broker.running() as address:
        follow(address, followed.folder, keep_ms=MINUTE, rounds=[START, START + 5 * MINUTE, START + 9 * MINUTE])
    (group,) = kg.load(followed.folder / "__consumer_offsets-0").values()
    assert [offset.offset for offset in group.offsets.values()] == [5]


def test_what_stopped_stays_stopped(followed):
    """A topic that was created again and is longer by the time of the next run is not mixed in."""
    followed.run([0, 1, 2], [0])
    followed.said.clear()
    followed.run([0, 1, 2, 3, 4])
    assert [line for line in followed.said if "is not followed" in line]
    assert len(followed.offsets) == 3 and "created again or truncated" in followed.state["stopped"]


def test_bad_folders_and_options_are_refused(followed, capsys, tmp_path):
    """One line, and nothing is written."""
    followed.folder.mkdir()
    (followed.folder / "notes.txt").write_text("mine")
    with pytest.raises(kg.UsageError, match=r"expected a new or empty folder, or one with follow\.json"):
        followed.run([0])
    (followed.folder / "notes.txt").unlink()
    (followed.folder / "follow.json").write_text("{")
    with pytest.raises(kg.UsageError, match=r"follow\.json"):
        followed.run([0])
    assert main(["pull", "--bootstrap", "127.0.0.1:1", "--out", str(tmp_path / "x"), "--keep", "1d"]) == 2
    assert "--keep cleans what --follow has kept" in capsys.readouterr().err
    assert not Path(tmp_path / "x").exists()
