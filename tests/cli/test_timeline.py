"""`kafkagroups timeline`: JSON lines, text of 80 columns, and what it says about bad paths and failed loads."""

import json

import kafkagroups as kg
from tests.captured import captured
from tests.groups.test_load_runs import DATA


def test_the_command_prints_what_the_function_returns(run):
    """CONTRACT.md 30 and 38: JSON lines, equal to `.to_json()`."""
    for options in ((), ("--all",)):
        status, out, err = run(
            "timeline", DATA / "3.9.2", "--group", "billing", "--coordinator", "classic", "--json", *options
        )
        result = kg.timeline(DATA / "3.9.2", "billing", coordinator="classic", all=bool(options))
        assert (status, err) == (0, "")
        assert [json.loads(line) for line in out.splitlines()] == result.to_json()


def test_the_text_has_one_event_a_line_and_fits_80_columns(run):
    """Sentences are wrapped, times are times, forward commits are counted, and a rewind is not a commit, too."""
    for version in ("1.0.1", "3.9.2", "4.3.1"):
        for group in kg.load(DATA / version, "new").partitions_of:
            _, out, _ = run("timeline", DATA / version, "--group", group, "--all")
            lines = out.splitlines()
            assert all(len(line) <= 80 for line in lines)
            result = kg.timeline(DATA / version, group, all=True)
            starts = [line for line in lines if not line.startswith("    ")]
            assert len(starts) == sum(event.event != "rewind" for event in result.events)
    status, out, _ = run("timeline", DATA / "3.9.2", "--group", "billing", "--kafka", "3.9.2")
    lines = out.splitlines()
    assert status == 0
    assert lines[0] == "2026-11-21 10:13:15  9:0 Generation 1 (range): billing-1 joined, 1 member."
    assert lines[-1] == "Not shown: 21 events that only moved forward. --all shows them."
    rewind = captured("runs") / "runs" / "4.3.1-main" / "log"
    _, out, _ = run("timeline", rewind, "--group", "c-admin")
    assert sum("t-1: 11 -> 0, back by 11" in line for line in out.splitlines()) == 1 and "11 -> 0." not in out


def test_the_text_says_where_the_cleaner_removed_the_evidence(run):
    """The shop's dashboard after a pass of a real cleaner."""
    _, out, _ = run("timeline", DATA / "cleaning" / "after-clean", "--group", "dashboard")
    text = " ".join(out.split())
    assert text.startswith("gap: 317 records cleaned away in 0 to 321; perhaps older commits of orders-2")


def test_several_paths_bad_paths_and_unknown_groups(run):
    """CONTRACT.md 2 and 3: each line names its path, a bad path does not stop the others, and the exit code is 2."""
    status, out, err = run(
        "timeline", DATA / "3.9.2", "nowhere", DATA / "1.0.1", "--group", "billing", "--json", "--kafka", "3.9.2"
    )
    rows = [json.loads(line) for line in out.splitlines()]
    assert status == 2 and err.count("\n") == 1
    assert list(dict.fromkeys(row["path"] for row in rows)) == [str(DATA / "3.9.2"), str(DATA / "1.0.1")]
    status, out, err = run("timeline", DATA / "3.9.2", "--group", "nobody")
    assert (
        (status, err) == (0, "")
        and "No record of nobody" in out
        and "if the topic has 50 partitions" in " ".join(out.split())
    )
    assert run("timeline", DATA / "3.9.2", "--group", "nobody", "--json") == (0, "", "")
    status, out, err = run("timeline", DATA / "3.9.2")
    assert status == 2 and "--group" in err


def test_a_load_that_fails_ends_with_1(run):
    """The line on stderr is the one of `explain`."""
    folder = captured("runs") / "runs" / "1.0.1-craft-a" / "log"
    story = run("explain", folder, "--group", "g", "--kafka", "1.0.1")
    told = run("timeline", folder, "--group", "g", "--kafka", "1.0.1")
    assert told[0] == story[0] == 1 and told[2] == story[2]
