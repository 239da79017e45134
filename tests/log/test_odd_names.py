"""Whoever is refused because of a name is told what it is, and what to do."""

import gzip
import shutil
from pathlib import Path

import pytest

LOG = "data/harbour/3.9.2/__consumer_offsets-9"
SEGMENT = f"{0:020}"
TOPIC_ID = "aBcDeFgHiJkLmNoPqRsTuV"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("__consumer_offsets-9.4b1c0a2d-delete", "about to delete: to read it, copy it as __consumer_offsets-9"),
        ("__consumer_offsets-9.4b1c0a2d-stray", "no longer assigns to this broker: to read it, copy it as"),
        ("__consumer_offsets-9.4b1c0a2d-future", "an unfinished copy for another disk"),
    ],
)
def test_a_folder_that_a_broker_has_renamed(run, tmp_path, name, text):
    """The suffixes of LocalLog (4.3.1)."""
    shutil.copytree(LOG, tmp_path / name)
    status, out, err = run("load", tmp_path)
    assert (status, out) == (2, "") and name in err and text in err


def test_an_archive_and_a_segment_of_tiered_storage(run, tmp_path):
    data = Path(LOG, f"{SEGMENT}.log").read_bytes()
    archive = tmp_path / f"{SEGMENT}.log.gz"
    archive.write_bytes(gzip.compress(data))
    for path in (archive, tmp_path):
        assert "is an archive: unpack it first" in run("load", path)[2]
    folder = tmp_path / "broker" / "__consumer_offsets-9"
    folder.mkdir(parents=True)
    archive.rename(folder / archive.name)
    assert "is an archive: unpack it first" in run("load", folder.parent)[2]
    (tmp_path / f"{SEGMENT}-{TOPIC_ID}.log").write_bytes(data)
    assert f"a segment of tiered storage: copy it as {SEGMENT}.log" in run("load", tmp_path)[2]
