"""Whether a broker starts with a log. The verdicts are those of 3.9.2 and 4.3.1, started with the same files.

Each file was put into the folder of a stopped broker, without index files and without .kafka_cleanshutdown; the broker
then started, or ended with the message. tests/broker/test_starts.py asks both again.
"""

import json

import pytest

import kafkagroups as kg
from tests.log.odd_folders import FOLDERS, READ, write


@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize("name", FOLDERS)
def test_check_and_load_say_whether_a_broker_starts(run, tmp_path, name, engine):
    """The file, the offset and the broker's own words; a load still shows what can be read."""
    files, wanted = FOLDERS[name]
    folder = write(tmp_path, files)
    partition = json.loads(run("load", folder, "--json", "--engine", engine)[1])["partitions"]["0"]
    assert partition["batches"] > 0
    status, out, err = run("check", folder, "--json", "--engine", engine)
    verdict = json.loads(out)
    found = [each for each in verdict["findings"] if each["kind"] == "does_not_start"]
    if wanted is None:
        assert partition["start"] is None and not found
        return
    file, offset, words = wanted
    assert partition["start"]["file"] == str(folder / file) and partition["start"]["offset"] == offset
    assert words in partition["start"]["reason"]
    assert (status, verdict["loads"], verdict["partitions"]["0"]["loads"]) == (1, False, False)
    assert [each["offset"] for each in found] == [offset] and str(folder / file) in found[0]["what"]
    assert "a broker does not start" in err or "fails" in err


def test_the_copy_that_the_remedy_names_starts(run, tmp_path):
    """Without a command, it is a copy without the file."""
    for name, (files, _) in FOLDERS.items():
        folder = write(tmp_path / name, files)
        findings = json.loads(run("check", folder, "--json")[1])["findings"]
        for found in [each for each in findings if each["kind"] == "does_not_start"]:
            copy = tmp_path / name / "copy" / "__consumer_offsets-0"
            if found["command"]:
                assert run(*[str(copy) if word == "COPY" else word for word in found["command"][1:]])[0] == 0
            else:
                copy = folder
                next(path for path in folder.iterdir() if f"{path}" in found["remedy"]).unlink()
            assert json.loads(run("load", copy, "--json")[1])["partitions"]["0"]["start"] is None


@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize("name", READ)
def test_a_load_reads_what_a_coordinator_reads_of_offsets_that_fall(tmp_path, name, engine):
    """Of overlapping segments, it skips what is behind its offset. 4.3.1 fails if the last offset comes again."""
    files, offsets, error = READ[name]
    folder = write(tmp_path, files)
    for coordinator in ("classic", "new"):
        groups = kg.load(folder, coordinator, engine=engine)
        found = groups.partitions[0].error
        if coordinator == "new" and error is not None:
            assert error in found
        else:
            assert found is None
            assert {str(key): each.offset for key, each in groups["g"].offsets.items()} == offsets
