"""`--past-damage`: the commands say what follows damage, and go on behind it if they are told to.

The log is partition 1 of the 1.0.1-txn run. Its fourth batch, at offset 3, is the marker that aborts the transaction of
offset 1, and gets a wrong checksum. The expectations are the bytes and records of the run before the damage was made.
"""

import json

import pytest

from tests.captured import captured
from tests.handmade import read_batches

SEGMENT = "runs/1.0.1-txn/log/__consumer_offsets-1/00000000000000000000.log"
BROKER = ["--coordinator", "classic", "--kafka", "1.0.1"]


@pytest.fixture
def damaged(tmp_path):
    """The path of the partition, its bytes before the damage, the batches, and the damaged batch."""
    original = (captured("runs") / SEGMENT).read_bytes()
    batches = list(read_batches(original))
    broken = batches[3]
    data = bytearray(original)
    data[broken.position + broken.size - 1] ^= 1
    path = tmp_path / "__consumer_offsets-1" / "00000000000000000000.log"
    path.parent.mkdir()
    path.write_bytes(data)
    return path, original, batches, broken


def test_without_the_option_the_damage_says_what_follows(damaged, run):
    """The answers stay those of a broker after recovery. What follows the damage is counted."""
    path, original, batches, broken = damaged
    status, out, err = run("load", path, "--json", *BROKER)
    partition = json.loads(out)["partitions"]["1"]
    assert status == 1
    assert partition["damage"]["position"] == broken.position
    assert partition["damage"]["bytes_after"] == len(original) - broken.position
    assert partition["damage"]["readable_batches_after"] == len(batches) - 4
    assert partition["damage"]["readable_records_after"] == sum(batch.count for batch in batches[4:])
    assert partition["damage"]["groups_after"] == ["jt-committed"]
    assert "gaps" not in partition
    assert partition["next_offset"] == broken.base_offset
    assert f"{len(batches) - 4} readable batches with 3 records of jt-committed" in err
    assert "--past-damage" in err


def expected_gap(path, broken, following):
    return {
        "file": str(path),
        "position": broken.position,
        "bytes": broken.size,
        "from_offset": broken.base_offset,
        "to_offset": following.base_offset,
    }


@pytest.mark.parametrize("engine", ["python", "compiled", pytest.param("spark", marks=pytest.mark.java)])
def test_load_goes_on_behind_the_damage(damaged, run, engine):
    """Behind the damage, group jt-committed commits clicks-0 in a transaction: its offset is answered again."""
    path, _, batches, broken = damaged
    status, out, _ = run("load", path, "--json", "--past-damage", "--engine", engine, *BROKER)
    loaded = json.loads(out)
    partition = loaded["partitions"]["1"]
    (gap,) = partition["gaps"]
    del gap["reason"]
    assert status == 1
    assert gap == expected_gap(path, broken, batches[4])
    assert partition["damage"] is None
    assert partition["next_offset"] == batches[-1].next_offset
    assert loaded["groups"]["jt-committed"]["offsets"]["clicks-0"]["offset"] == 500


@pytest.mark.parametrize("engine", ["python", "compiled", pytest.param("spark", marks=pytest.mark.java)])
def test_stats_and_explain_go_on_behind_the_damage(damaged, run, engine):
    path, _, batches, broken = damaged
    options = [path, "--json", "--past-damage", "--engine", engine, *BROKER]
    status, out, _ = run("stats", *options)
    counted = json.loads(out)
    (gap,) = counted["partitions"]["1"]["gaps"]
    assert (status, gap["position"], gap["bytes"]) == (1, broken.position, broken.size)
    assert counted["partitions"]["1"]["cleaned_up_to"] is None, "damaged offsets are no trace of the cleaner"
    assert [finding["kind"] for finding in counted["findings"] if finding["offset"] == gap["from_offset"]] == ["damage"]
    status, out, _ = run("explain", "--group", "jt-committed", *options)
    explained = json.loads(out)
    (gap,) = explained["partitions"]["1"]["gaps"]
    assert (status, gap["to_offset"]) == (1, batches[4].base_offset)
    assert [row["offset"] for row in explained["history"]] == [4, 5, 6]


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_check_judges_what_is_behind_the_damage(damaged, run, engine):
    """Behind the damage is a record that Kafka 1.0.1 loads: the whole log of the run did."""
    path, _, batches, broken = damaged
    rules = [*BROKER, "--engine", engine, "--json"]
    status, out, _ = run("check", path, *rules)
    before = json.loads(out)["partitions"]["1"]
    status_past, out, _ = run("check", path, "--past-damage", *rules)
    after = json.loads(out)["partitions"]["1"]
    (gap,) = after["gaps"]
    del gap["reason"]
    assert (status, status_past) == (1, 1)
    assert "gaps" not in before and before["damage"] and gap == expected_gap(path, broken, batches[4])
    assert after["damage"] is None and after["loads"] and before["loads"]
    assert after["records"] - before["records"] == sum(batch.count for batch in batches[4:])


@pytest.mark.parametrize("command", [["load"], ["stats"], ["check"], ["explain", "--group", "jt-committed"]])
def test_the_text_marks_the_gap(damaged, run, command):
    path, _, _, broken = damaged
    _, out, err = run(*command, path, "--past-damage", *BROKER)
    place = f"{path}, byte {broken.position}: {broken.size} damaged bytes are skipped"
    assert str(path) in out, "a path is not broken, so that it can be copied"
    out = " ".join(out.split())
    assert place in out
    assert place in err or "1 partition damaged" in err
    assert "offset 3 is missing" in out


@pytest.mark.parametrize("others", [["--since", "3"], ["whole"]], ids=["moments", "replicas"])
def test_diff_goes_on_behind_the_damage(damaged, run, tmp_path, others):
    """Behind the damage, group jt-committed commits clicks-0: only the later moment, and both replicas, have it."""
    path, original, *_ = damaged
    whole = tmp_path / "whole" / "__consumer_offsets-1" / path.name
    whole.parent.mkdir(parents=True)
    whole.write_bytes(original)
    others = [whole if other == "whole" else other for other in others]
    status, out, err = run("diff", path, *others, "--json", "--past-damage", *BROKER)
    found = json.loads(out)["offsets"]
    assert status == 1 and "damaged bytes are skipped" in err
    if others == [whole]:
        assert "jt-committed" not in found
    else:
        before, after = found["jt-committed"]["clicks-0"]
        assert before is None and after["offset"] == 500
    _, out, _ = run("diff", path, *others, "--past-damage", *BROKER)
    assert f"{path}, byte" in " ".join(out.split())


def test_dump_marks_the_gap_between_the_batches(damaged, run):
    path, _, batches, broken = damaged
    status, out, _ = run("dump", path, "--past-damage")
    lines = out.splitlines()
    marks = [number for number, line in enumerate(lines) if "damaged bytes are skipped" in line]
    assert status == 1
    assert len(marks) == 1
    assert lines[marks[0] + 1].startswith(f"partition 1 offsets {batches[4].base_offset} to")
    status, out, _ = run("dump", path, "--past-damage", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row.get("offset", "gap") for row in rows] == [0, 1, 2, "gap", 4, 5, 6]
    assert rows[3]["gap"]["position"] == broken.position


def test_the_timeline_says_that_the_bytes_are_damaged(damaged, run):
    """The cleaner removed nothing: the captured log has every offset, and one byte of offset 3 was changed."""
    path, *_ = damaged
    _, out, _ = run("timeline", path, "--group", "jt-committed", "--past-damage", *BROKER)
    text = " ".join(out.split())
    assert "The bytes of offset 3 are damaged; any record of this group can be there." in text
    assert "cleaned away in 3" not in text
