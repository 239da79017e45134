"""`max.decompressed.message.bytes`: at which records the log cleaner of 4.2.2 and 4.4.0 gives a partition up."""

import json
import shutil

import pytest

import kafkagroups as kg
from tests.captured import captured
from tests.command import main

CASES = sorted((captured("releases") / "releases" / "decompressed").iterdir())
LIMIT = 100_000
"""The limit of the captured brokers in the mode "limit"."""


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_the_cleaner_gives_up_where_a_broker_does(folder, tmp_path):
    """With the limit, a pass fails in the same cases, at Kafka's size. Without it, the segments equal the broker's."""
    case = json.loads((folder / "case.json").read_text())
    name = f"__consumer_offsets-{case['partition']}"
    kg.compact(folder / name, tmp_path / "cleaned")
    (after,) = (folder / "after-cleaning").glob("*/*.log")
    assert (tmp_path / "cleaned" / after.name).read_bytes() == after.read_bytes()
    verdict = case["verdicts"]["limit"]["4.2.2"]
    assert verdict["cleaner"] == case["verdicts"]["limit"]["4.4.0"]["cleaner"]
    limited = tmp_path / "limited"
    if verdict["cleaner"] == "cleaned":
        kg.compact(folder / name, limited, kg.CleanerConfig(max_decompressed_message_bytes=LIMIT))
        return
    size = verdict["error"]["message"].split()[3]
    with pytest.raises(kg.InvalidLog, match=f"a record of {size} bytes .* max.decompressed.message.bytes={LIMIT}"):
        kg.compact(folder / name, limited, kg.CleanerConfig(max_decompressed_message_bytes=LIMIT))
    assert not list(limited.iterdir())


@pytest.mark.parametrize("release", ["4.2.1", "4.2.2", "4.3.1", "4.4.0"])
def test_no_load_looks_at_the_limit(release):
    """The limit is one of the cleaner: every log loads, in every release that was asked."""
    for folder in CASES:
        case = json.loads((folder / "case.json").read_text())
        assert {each[release]["load"] for each in case["verdicts"].values()} == {"ok"}
        assert kg.load(folder / f"__consumer_offsets-{case['partition']}", kafka=release).problems == []


def test_the_command_names_the_record(tmp_path, capsys):
    """`compact --max-decompressed-message-bytes` says which record stops a broker's cleaner, and exits with 1."""
    (log,) = (captured("releases") / "releases" / "decompressed" / "dec-gzip-above").glob("__consumer_offsets-*")
    shutil.copytree(log, tmp_path / log.name)
    arguments = ["compact", str(tmp_path / log.name), "--out", str(tmp_path / "out")]
    assert main([*arguments, "--max-decompressed-message-bytes", str(LIMIT)]) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "a record of 100001 bytes at offset 1" in said.err
