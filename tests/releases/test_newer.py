"""A release that came out since is never refused, and an upgrade that takes fixes away says so."""

import json

import pytest

import kafkagroups as kg

DATA = "data/harbour/4.3.1"


@pytest.mark.parametrize(
    ("coordinator", "text", "rules_of"),
    [
        ("new", "4.5.0", "4.4.0"),
        ("new", "4.5", "4.4.0"),
        ("new", "5.0.0", "4.4.0"),
        ("new", "4.3.9", "4.3.1"),
        ("new", "4.2.3", "4.2.2"),
        ("new", "4.4.1", "4.4.0"),
        ("new", "4.2.2", None),  # It came out after 4.3.1, and has limits and a fix that 4.3.1 lacks.
        ("classic", "3.9.9", "3.9.2"),
    ],
)
def test_a_newer_release_has_the_rules_of_the_nearest_one(coordinator, text, rules_of):
    dialect = kg.dialect(coordinator, text)
    assert (dialect.kafka, dialect.rules_of) == (text, rules_of)


def test_4_2_is_its_newest_patch():
    assert kg.dialect("new", "4.2").version == (4, 2, 2)


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        *(("4.2.2", after, ["KAFKA-20570", *["max.decompressed.message.bytes"] * 3]) for after in ("4.3.0", "4.3")),
        ("4.0.2", "4.1.0", ["KAFKA-19862"]),  # 4.0.2 and 4.1.2 have this fix.
        ("4.2.1", "4.3.1", []),
        ("4.2.2", "4.4.0", []),
        ("4.3.1", "4.2.2", []),
        ("4.3.1", "4.4.0", []),
    ],
)
def test_an_upgrade_that_takes_fixes_away_names_them(before, after, lost, run):
    """They are no finding. No other upgrade or downgrade takes a fix away."""
    verdict = json.loads(run("check", DATA, "--kafka", before, "--to", after, "--json")[1])
    lines = verdict.get("lost_fixes", [])
    assert len(lines) == len(lost) and all(any(name in line for line in lines) for name in lost)
    text = " ".join(run("check", DATA, "--kafka", before, "--to", after)[1].split())
    assert ("The upgrade takes a fix away" in text) == bool(lost)


def test_a_newer_target_is_named_on_stderr(run):
    """`check --to` accepts a release that is newer than all known ones, and says whose rules it has."""
    status, out, err = run("check", DATA, "--to", "4.9.0", "--json")
    assert status == 0 and json.loads(out)["to_rules"] == "4.4.0" and "the rules are those of 4.4.0" in err


@pytest.mark.parametrize("command", ["edit", "encode", "decode"])
def test_other_commands_say_so_too(command, tmp_path, run):
    """What writes for a release, or reads one record, has the same line."""
    words = {
        "edit": ["edit", f"{DATA}/__consumer_offsets-9", "--roll", "--out", str(tmp_path / "out")],
        "encode": ["encode", "--jsonl"],
        "decode": ["decode", "0001000162000174", "null"],
    }
    assert run(*words[command], "--kafka", "4.9.0")[2].count("the rules are those of 4.4.0") == 1
