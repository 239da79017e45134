"""`kafkagroups edit`: its text, its JSON, the order of its steps, and what it refuses."""

import json
from pathlib import Path

import pytest

import kafkagroups as kg
from tests.handmade import read_batches

HARBOUR = Path(__file__).parents[2] / "data" / "harbour"
CLASSIC = HARBOUR / "3.9.2" / "__consumer_offsets-9"


def test_each_step_prints_one_line(run, tmp_path):
    """In the order of the options, with the offsets of the new records, and the result at the end."""
    out_folder = tmp_path / "out"
    options = (
        "--marker abort:1 --commit a:b:t-0=5@7 --roll --tombstone a:b:t-0 --clean 1800000000000 --delete-group billing "
        "--cut 48"
    )
    status, out, err = run("edit", CLASSIC, "--out", out_folder, *options.split())
    lines = out.splitlines()
    assert (status, err, len(lines)) == (0, "", 8)
    assert lines[0].startswith("Offset 44: a marker aborts the transaction of producer 1 (epoch 0), open since offset")
    assert lines[1] == "Offset 45: group a:b commits offset 5 of t-0 at 7 ms (value version 3)."
    assert lines[2] == "A new active segment begins at offset 46."
    assert lines[3] == "Offset 46: a tombstone deletes the offset of group a:b for t-0."
    assert lines[4].startswith("A pass at 1800000000000 ms removes ")
    assert "2 members; a running coordinator refuses this (NON_EMPTY_GROUP)" in lines[5]
    assert lines[6].endswith("The batch of offsets 47 to 52 is removed as a whole.")
    assert lines[7] == f"{out_folder}: 2 segments, start offset 0, next offset 47"


def test_the_json_is_that_of_the_api(run, tmp_path):
    steps = [("cut", 40), ("commit", "g:t-0=5"), ("roll", None), ("clean", 1_800_000_000_000)]
    options = [word for name, text in steps for word in (f"--{name}", text) if word is not None]
    status, out, err = run("edit", CLASSIC, "--out", tmp_path / "out", *options, "--json")
    result = kg.edit(CLASSIC, tmp_path / "other", steps).to_json() | {"out": str(tmp_path / "out")}
    assert (status, err, json.loads(out)) == (0, "", result)
    assert [step["step"] for step in result["steps"]] == ["cut", "commit", "roll", "clean"]
    assert result["steps"][0]["removed"]["records"] > 0
    assert result["steps"][3].keys() >= {"next_dirty_offset", "groups", "before", "after"}
    assert result["segments"][-1] == result["next_offset"] == result["steps"][1]["last_offset"] + 1


def test_damage_is_an_error_on_stderr(run, tmp_path):
    """As for `compact`: the part before the damage is written, and the exit code is 1."""
    path = tmp_path / "__consumer_offsets-9"
    path.mkdir()
    (segment,) = CLASSIC.glob("*.log")
    data = segment.read_bytes()
    (path / segment.name).write_bytes(data[:-5])
    status, out, err = run("edit", path, "--out", tmp_path / "out", "--roll")
    *_, last = read_batches(data)
    assert (status, len(err.splitlines())) == (1, 1)
    assert f"the log ends here at offset {last.base_offset}" in err
    assert f"A new active segment begins at offset {last.base_offset}." in out


@pytest.mark.parametrize(
    ("text", "topic", "partition", "reading"),
    [
        ("foo--1", "foo-", 1, "partition 1 of the topic foo-; the other reading is written foo-(-1)"),
        ("foo-(-1)", "foo", -1, "partition -1 of the topic foo"),
    ],
)
def test_a_name_with_two_readings(run, text, topic, partition, reading, tmp_path):
    """`foo--1` is the topic `foo-`, as in a rescue plan, and the line of the step says so."""
    out_folder = tmp_path / "out"
    _, out, err = run("edit", CLASSIC, "--out", out_folder, f"--commit=billing:{text}=5", f"--tombstone=g:{text}")
    assert kg.load(out_folder, "classic")["billing"].offsets[kg.TopicPartition(topic, partition)].offset == 5
    assert [line.count(f"foo--1 ({reading})") for line in out.splitlines()[:2]] == [1, 1] and err == ""
