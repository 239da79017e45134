"""`kafkagroups compact`: its text output, and what it refuses."""

import json
import shutil

import pytest

from tests.captured import captured
from tests.handmade import flip_bit

CASE = captured("cleaner") / "cleaner" / "cases" / "03-overwrite-inside-batch"


@pytest.fixture
def path(tmp_path):
    """Six records in segment 0, of which Kafka's cleaner keeps three, and one in the active segment."""
    return shutil.copytree(CASE / "before", tmp_path / "__consumer_offsets-0")


def test_the_table_shows_what_was_removed(path, tmp_path, run):
    """386 bytes became 254 (case 03); the active segment has 105 more."""
    status, out, err = run("compact", path, "--out", tmp_path / "out")
    assert (status, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert ["before", "2", "3", "7", "491"] in lines
    assert ["after", "2", "3", "4", "359"] in lines
    assert ["removed", "0", "0", "3", "132"] in lines
    assert "next dirty offset is 6" in out


def test_a_log_with_nothing_dirty_is_copied(path, tmp_path, run):
    status, out, _ = run("compact", path, "--out", tmp_path / "out", "--first-dirty", 6)
    assert status == 0 and "Nothing was cleaned" in out
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == {
        file.name: file.read_bytes() for file in path.iterdir()
    }


def test_wrong_folders_are_one_line_and_2(path, tmp_path, run):
    """A folder with something in it, and a file where the folder should be."""
    (tmp_path / "file").write_text("")
    for out_folder, reason in ((tmp_path, "expected a new or empty folder"), (tmp_path / "file", "File exists")):
        status, out, err = run("compact", path, "--out", out_folder)
        assert (status, out, err.count("\n")) == (2, "", 1) and reason in err


def test_damage_ends_the_log_and_is_told(path, tmp_path, run):
    """A broker's recovery cuts segment 0 at its second batch and drops segment 6: nothing closed is left to clean."""
    segment = path / f"{0:020}.log"
    data = segment.read_bytes()
    flip_bit(segment, -1)
    status, out, err = run("compact", path, "--out", tmp_path / "out", "--json")
    assert status == 1 and "byte 281: the log ends here at offset 5" in err and err.count("\n") == 1
    size = {"segments": 1, "batches": 1, "records": 5, "bytes": 281}
    assert json.loads(out) == {"next_dirty_offset": 0, "groups": [], "before": size, "after": size}
    (left,) = (tmp_path / "out").iterdir()
    assert left.read_bytes() == data[:281]
