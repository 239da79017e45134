"""A release that came out since is never refused, and an upgrade that takes fixes away says so."""

import io
import json

import pytest

import kafkagroups as kg
from tests.command import main

DATA = "data/harbour/4.3.1"


@pytest.mark.parametrize(
    ("text", "rules_of"),
    [
        ("4.5.0", "4.4.0"),
        ("4.5", "4.4.0"),
        ("5.0.0", "4.4.0"),
        ("4.3.9", "4.3.1"),
        ("4.2.3", "4.2.2"),
        ("4.4.1", "4.4.0"),
    ],
)
def test_a_newer_release_has_the_rules_of_the_nearest_one(text, rules_of, capsys):
    """The JSON has `kafka_rules`, and one line on stderr says so; the answer is that of the nearest release."""
    dialect = kg.dialect("new", text)
    assert (dialect.kafka, dialect.rules_of) == (text, rules_of)
    answers = []
    for kafka in (text, rules_of):
        assert main(["load", DATA, "--kafka", kafka, "--json"]) == 0
        said = capsys.readouterr()
        answer = json.loads(said.out)
        assert answer.pop("kafka") == kafka
        assert answer.pop("kafka_rules", None) == (rules_of if kafka == text else None)
        assert said.err == (
            f"kafkagroups: Kafka {text}: this package was not compared with a broker of this version; "
            f"the rules are those of {rules_of}\n"
            if kafka == text
            else ""
        )
        answers.append(answer)
    assert answers[0] == answers[1]


def test_a_later_patch_of_a_classic_line_has_its_rules():
    """3.9.9 does not exist yet, and would be read as 3.9.2."""
    assert kg.dialect("classic", "3.9.9").rules_of == "3.9.2"


def test_4_2_is_its_newest_patch():
    """4.2.2 came out after 4.3.1, and has limits and a fix that 4.3.1 lacks."""
    assert kg.dialect("new", "4.2.2").rules_of is None
    assert kg.dialect("new", "4.2").version == (4, 2, 2)


@pytest.mark.parametrize("target", ["4.3.0", "4.3.1", "4.3"])
def test_an_upgrade_from_4_2_2_to_4_3_takes_fixes_away(target, capsys):
    """`check --to` names the subscriptions that fail again, and the limits that are gone; it is no finding."""
    assert main(["check", DATA, "--kafka", "4.2.2", "--to", target, "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["findings"] == [] and len(verdict["lost_fixes"]) == 4
    assert any("KAFKA-20570" in line for line in verdict["lost_fixes"])
    assert any("max.decompressed.message.bytes" in line for line in verdict["lost_fixes"])
    assert main(["check", DATA, "--kafka", "4.2.2", "--to", target]) == 0
    assert f"The upgrade takes a fix away (KAFKA-20570): unlike 4.2.2, {target}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("before", "after"), [("4.2.1", "4.3.1"), ("4.2.2", "4.4.0"), ("4.3.1", "4.2.2"), ("4.3.1", "4.4.0")]
)
def test_other_changes_of_the_release_take_none_away(before, after, capsys):
    """Neither the earlier patch, nor an upgrade to 4.4.0, nor a downgrade."""
    assert main(["check", DATA, "--kafka", before, "--to", after, "--json"]) == 0
    assert "lost_fixes" not in json.loads(capsys.readouterr().out)


def test_a_newer_target_is_named_on_stderr(capsys):
    """`check --to` accepts a release that is newer than all known ones, and says whose rules it has."""
    assert main(["check", DATA, "--to", "4.9.0", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["to_rules"] == "4.4.0" and "the rules are those of 4.4.0" in said.err


def test_an_upgrade_from_4_0_2_to_4_1_0_takes_a_fix_away(capsys):
    """4.0.2 and 4.1.2 have the fix of KAFKA-19862, and 4.1.0 lacks it."""
    assert main(["check", DATA, "--kafka", "4.0.2", "--to", "4.1.0", "--json"]) in (0, 1)
    (line,) = json.loads(capsys.readouterr().out)["lost_fixes"]
    assert "KAFKA-19862" in line


@pytest.mark.parametrize("command", ["edit", "encode", "decode"])
def test_other_commands_say_so_too(command, tmp_path, capsys, monkeypatch):
    """What writes for a release, or reads one record, has the same line."""
    words = {
        "edit": ["edit", f"{DATA}/__consumer_offsets-9", "--roll", "--out", str(tmp_path / "out")],
        "encode": ["encode", "--jsonl"],
        "decode": ["decode", "0001000162000174", "null"],
    }
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    main([*words[command], "--kafka", "4.9.0"])
    assert capsys.readouterr().err.count("the rules are those of 4.4.0") == 1
