"""Every command on a log whose names try to be more than text: terminal commands, marks of direction, markup, options.

`CASES` has a case for each command of the parser. A new command without a case fails a test.
"""

import json
import re
import shlex
from itertools import product
from unicodedata import category

import pytest
from msgspec.structs import replace

import kafkagroups as kg
from tests.command import escape
from tests.handmade import (
    GroupMetadataKey,
    GroupMetadataValue,
    LogRecord,
    LogWriter,
    MemberMetadata,
    OffsetCommitKey,
    classic_member,
    commit_record,
    encode_batch,
    generation,
    write_batches,
)
from tests.html_report.hostile_names import NAMES, write_hostile_log

UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
TERMINAL = NAMES[6]
REVERSED = NAMES[7]
CASES = {
    "decode": [["decode", "KEY"], ["decode", TERMINAL]],
    "encode": [["encode", "--kafka", REVERSED]],
    "partition": [["partition", "--", *NAMES], ["partition", "--json", "--", *NAMES]],
    "dump": [
        ["dump", "LOG"],
        ["dump", "LOG", "--json"],
        ["dump", "LOG", "--group=NAME"],
        ["dump", "LOG", "--type", TERMINAL],
    ],
    "load": [
        ["load", "LOG"],
        ["load", "LOG", "--json"],
        ["load", "LOG", "--coordinator", "classic"],
        ["load", "LOG", "--group=NAME"],
        ["load", TERMINAL],
        *(["load", "LOG", option, REVERSED] for option in ("--kafka", "--engine", "--until-time", f"--{TERMINAL}")),
    ],
    "explain": [
        ["explain", "LOG", "--group=NAME"],
        ["explain", "LOG", "--group=NAME", "--topic=NAME", "--partition", "0"],
        ["explain", "LOG", "--group=nobodyNAME"],
    ],
    "timeline": [["timeline", "LOG", "--all", "--group=NAME"], ["timeline", "LOG", "--group=nobodyNAME"]],
    "diff": [["diff", "LOG", "--since", "20"], ["diff", "LOG", "--coordinators"], ["diff", "LOG", "LOG"]],
    "stats": [
        ["stats", "LOG"],
        ["stats", "LOG", "--by", "topic"],
        ["stats", "LOG", "--top", "100"],
        ["stats", "LOG", "--top", TERMINAL],
    ],
    "check": [["check", "LOG"], ["check", "LOG", "--kafka", "3.9.2", "--coordinator", "classic"]],
    "report": [["report", "LOG", "--out", "OUT"]],
    "compact": [["compact", "LOG", "--out", "OUT"]],
    "edit": [["edit", "LOG", "--out", "OUT", "--delete-group=NAME"]],
    "pull": [["pull", "--out", "OUT", "--bootstrap", TERMINAL]],
    "rescue": [
        ["rescue", "plan", "LOG"],
        ["rescue", "plan", "LOG", "--all"],
        ["rescue", "plan", "LOG", "--group=NAME"],
        ["rescue", "plan", "LOG", "--group", f"nobody{TERMINAL}"],
        ["rescue", "plan", "LOG", "--rename", TERMINAL],
        ["rescue", "apply", TERMINAL, "--bootstrap", REVERSED],
    ],
    "synth": [
        ["synth", "--out", "OUT", "--records", "10", "--prefix=NAME"],
        ["synth", "--out", "OUT", "--records", TERMINAL],
    ],
    "replay": [["replay", TERMINAL, "--out", "OUT"]],
    "doctor": [["doctor"]],
    "completion": [["completion", "bash"], ["completion", "NAME"]],
}
LISTS_ALL = (["dump", "LOG"], ["load", "LOG"], ["stats", "LOG", "--top", "100"], ["rescue", "plan", "LOG"])
"""Commands whose text names every group of the log."""


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_hostile_log(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def unreadable(tmp_path_factory):
    """The same log in a folder with a hostile name. Then come a group with a member, and a key that cannot be read."""
    log = write_hostile_log(tmp_path_factory.mktemp("unreadable") / f"x{REVERSED}")
    member = MemberMetadata(REVERSED, REVERSED, REVERSED, REVERSED, 1, 1, b"", b"")
    group = GroupMetadataValue(REVERSED, 1, REVERSED, REVERSED, 1, (member,))
    record = kg.encode(kg.Record(2, GroupMetadataKey(TERMINAL), group, 3))
    with LogWriter(log) as writer:
        for key, value in (record, (b"\0\1\7\7" + REVERSED.encode(), b"")):
            writer.append(encode_batch([LogRecord(writer.next_offset, 5, key, value)]))
    return log


def fill(case, log, out, name=""):
    """Return the arguments of a case with the log, an output path and a name."""
    key = kg.encode(kg.Record(1, OffsetCommitKey(TERMINAL, REVERSED, 0), None, None))[0].hex()
    words = {"LOG": str(log), "OUT": str(out), "KEY": key}
    return [words.get(word, word.replace("NAME", name)) for word in case]


def escaped(name):
    return "".join(each.encode("unicode_escape").decode() if category(each) in UNSAFE else each for each in name)


def check_harmless(text):
    unsafe = {character for character in text if category(character) in UNSAFE} - {"\n"}
    assert not unsafe


def test_every_command_has_a_case(run):
    check_harmless(run(TERMINAL)[2])
    assert set(CASES) == set(re.findall(r"^  (\w+)  ", run("--help")[1], re.M))


@pytest.mark.parametrize("command", CASES)
def test_names_are_harmless_in_every_command(run, log, unreadable, tmp_path, command):
    """stdout and stderr contain no control character except the end of a line, and no mark of direction."""
    number = 0
    for case in CASES[command]:
        names = NAMES if any("NAME" in word for word in case) else ("",)
        for path, name in [*product([log], names), *product([unreadable], names[6:8] or names)]:
            number += 1
            _, out, err = run(*fill(case, path, tmp_path / f"out-{number}", name))
            assert out or err
            check_harmless(out + err)


@pytest.mark.parametrize("tool", ["dump-log", "formatter"])
def test_the_text_of_kafkas_tools_is_exact_except_on_a_terminal(run, log, monkeypatch, tool):
    """In a pipe, the bytes are those of the tool. On a terminal, each line is escaped."""
    command = ["dump", log, "--format", tool, "--kafka", "2.8.2"]
    _, exact, _ = run(*command)
    assert TERMINAL in exact and REVERSED in exact
    monkeypatch.setattr("_pytest.capture.EncodedFile.isatty", lambda file: True)
    monkeypatch.setattr("_pytest.capture.CaptureIO.isatty", lambda file: True, raising=False)
    _, shown, _ = run(*command)
    check_harmless(shown)
    assert shown.split("\n") == [escape(line) for line in exact.split("\n")]


@pytest.mark.parametrize("case", LISTS_ALL, ids=lambda case: " ".join(case))
def test_each_name_can_be_recognised(run, log, tmp_path, case):
    """The start of each word of each name is in the text, escaped. A cell of a table wraps and may divide a word."""
    _, out, _ = run(*fill(case, log, tmp_path))
    for name in NAMES:
        for word in escaped(name).split():
            assert word[:10] in out


@pytest.mark.parametrize("name", NAMES)
def test_a_command_in_a_remedy_has_the_name_as_one_argument(tmp_path, name):
    """A shell passes exactly the name. `--group=` in front keeps a name with -- from being an option."""
    member = replace(classic_member(topics=("other",)), assignment=b"")
    records = [
        generation(1, member, group=name),
        commit_record(5, 0, name, group=name),
        generation(2, group=name),
        commit_record(5000, 0, name, group=name, leader_epoch=-1),
    ]
    findings = kg.stats(write_batches(tmp_path, [(time, [each]) for time, each in enumerate(records)])).findings
    (found,) = [finding for finding in findings if finding.kind == "skipped_records"]
    assert shlex.split(found.command_line or shlex.join(found.command)) == found.command
    assert found.command[-1] == f"--group={name}"


def test_json_of_hostile_names_is_ascii(run, log):
    """JSON has the exact names. Its text is ASCII, so that a terminal shows no command."""
    _, out, _ = run("load", log, "--json")
    assert out.isascii() and set(NAMES) <= {*json.loads(out)["groups"]} | {*json.loads(out)["orphans"]}
