"""A user's mistake with `replay` is one line on stderr and exit code 2."""

import json
import os

import pytest

from tests.captured import captured

HEADER = {"broker": "3.9.2", "config": {}, "partitions": 4, "topics": {"orders": 1}, "start_ms": 1_700_000_000_000}


def lines_of(api):
    """Captured requests of an API that are answered, of its oldest and its newest version."""
    found = {}
    for file in sorted((captured("conversations") / "conversations").glob("*/conversation.jsonl")):
        for text in file.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            if line.get("api") == api and line["response"]:
                found.setdefault(line["api_version"], line)
    return [found[version] for version in sorted({min(found), max(found)})]


@pytest.fixture
def refused(run, tmp_path):
    """Plays lines that cannot be played; gives what is said behind the file's name."""

    def call(*lines, options=()):
        file = tmp_path / "conversation.jsonl"
        file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
        status, out, err = run("replay", file, "--out", tmp_path / "log", *options)
        assert (status, out, err.count("\n")) == (2, "", 1)
        return err.strip().replace(f"{file}, ", "")

    return call


def test_a_conversation_must_be_there(run, tmp_path):
    status, _, err = run("replay", tmp_path / "none.jsonl", "--out", tmp_path / "log")
    assert (status, err) == (2, f"kafkagroups: {tmp_path}/none.jsonl: No such file or directory\n")


def test_a_conversation_is_a_regular_file(run, tmp_path):
    """A pipe without a writer would be waited for."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    status, _, err = run("replay", tmp_path / "pipe.jsonl", "--out", tmp_path / "log")
    assert (status, err) == (2, f"kafkagroups: {tmp_path}/pipe.jsonl: expected a regular file, found a named pipe\n")


def test_a_conversation_cannot_last_for_centuries(refused):
    """Every 10 minutes, a broker deletes expired offsets. The replay does not do this for thousands of years."""
    request = lines_of("Heartbeat")[0]
    message = refused(HEADER, request | {"ms": 2**53})
    assert f"lasts {2**53} ms" in message and "offsets.retention.check.interval.ms" in message


@pytest.mark.parametrize("lines", [(), ("",), ("no JSON",), ("[1]",), ("{}",), ({**HEADER, "partitions": "4"},)])
def test_a_file_must_begin_with_the_header_of_a_conversation(refused, lines):
    assert "line 1: " in refused(*lines)


def test_the_folder_must_be_empty(refused, tmp_path):
    """An existing log is not changed."""
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "mine").write_text("kept")
    assert refused(HEADER) == f"kafkagroups: {tmp_path}/log: expected a new or empty folder, found files in it"
    assert [file.name for file in (tmp_path / "log").iterdir()] == ["mine"]


@pytest.mark.parametrize("version", ["4.3.0", "0.10.2", "three"])
def test_only_a_checked_version_can_be_played(refused, tmp_path, version):
    """Nothing is made for what cannot be played."""
    assert version in refused(HEADER, options=("--kafka", version))
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("config", [{"group.max.size": "many"}, {"offsets.topic.compression.codec": 9}])
def test_settings_must_be_those_of_a_broker(refused, config):
    assert "the header's config: " in refused({**HEADER, "config": config})


def test_the_error_for_a_torn_line_names_the_line(refused):
    assert refused(HEADER, '{"n": 1, "ms": 3, "api": "Heart').startswith("kafkagroups: line 2: expected a conversation")


PLAYED = (
    *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "TxnOffsetCommit", "OffsetFetch"),
    *("DescribeGroups", "ListGroups", "DeleteGroups", "OffsetDelete"),
)
DECIDED = ("InitProducerId", "AddOffsetsToTxn", "EndTxn", "CreateTopics", "DeleteTopics")
"""What other parts of a broker answer. The error in such a line need not name the field."""


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("api", [*PLAYED, *DECIDED])
def test_the_error_names_a_missing_or_wrong_field_of_a_request(run, tmp_path, api):
    """Every field in every depth is taken out, and replaced: the line is refused by its name, or played without it."""
    lines = lines_of(api)
    assert lines
    file = tmp_path / "conversation.jsonl"
    for number, line in enumerate(lines):
        for change, (changed, name) in enumerate(changes(line)):
            out = tmp_path / f"{number}-{change}"
            file.write_text(f"{json.dumps(HEADER)}\n{json.dumps(changed)}\n")
            status, _, err = run("replay", file, "--out", out)
            assert (status, err) == (0, "") or (status == 2 and err.count("\n") == 1 and "line 2: " in err), name
            # With another version, a field of that one is missing.
            assert status == 0 or name in err or name == "api_version" or api in DECIDED


def changes(value, under=""):
    """The same JSON without one of its fields, or with another value there; and the name of the field."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield {other: there for other, there in value.items() if other != name}, name
            for strange in (None, "?", 7, [None]):
                yield {**value, name: strange}, name
            for changed, deeper in changes(inner, name):
                yield {**value, name: changed}, deeper
    elif isinstance(value, list) and value:
        for changed, deeper in changes(value[0], under):
            yield [changed, *value[1:]], deeper
        yield [None, *value[1:]], under


@pytest.mark.parametrize("event", [{"event": "restart", "ms": 1}, {"event": "append", "ms": 1, "marker": "COMMIT"}, []])
def test_the_error_for_a_wrong_event_names_its_line(refused, event):
    assert refused(HEADER, event).startswith("kafkagroups: line 2: ")


@pytest.mark.parametrize("change", [{"partitions": 2**31}, {"topics": {"orders": 2**40}}])
def test_a_conversation_cannot_name_millions_of_partitions(refused, change):
    """The coordinator loads each partition of its topic, and a deleted topic deletes the offsets of each partition."""
    assert "Expected `int` <= 10000" in refused(HEADER | change)
