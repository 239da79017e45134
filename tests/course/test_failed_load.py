"""The tools of lesson 11: a log that was made for a test, and a partition that does not load."""

from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import course

DATA = Path(__file__).parents[2] / "data"


def test_groups_of_a_test_log_have_one_letter():
    """A record in a transactional batch has its producer, also the record of a group."""
    lines = course.read_crafted_lines("t-gt-in-txn-abort")
    assert [str(line).strip() for line in lines] == [
        "0: g, generation 5",
        "1: g, deleted, producer 7",
        "2: producer 7 aborts",
    ]


def test_the_failing_partition_loads_after_the_cut(capsys):
    """Record 45 stops the load. Without it and what follows, the offsets are those of a broker (answers.json)."""
    folder = course.copy_failing_partition()
    log = folder / "copy" / "__consumer_offsets-9"
    assert kg.load(log).failed and not kg.load(log)
    course.run_command("kafkagroups check copy/__consumer_offsets-9", folder)
    course.run_command("kafkagroups edit copy/__consumer_offsets-9 --out shorter/__consumer_offsets-9 --cut 45", folder)
    out = capsys.readouterr().out
    assert out.startswith("$ kafkagroups check copy/__consumer_offsets-9\nFAILS: copy/__consumer_offsets-9\n")
    assert "Partition 9, offset 45, group fraud-check" in out and str(folder) not in out
    answered = course.read_answers("harbour/4.3.1")["offsets"]
    groups = kg.load(folder / "shorter" / "__consumer_offsets-9")
    for name in ("billing", "fraud-check"):
        assert course.fetch_offsets(groups, [name])[name] == answered[name]
    assert [line.value for line in course.read_lines(log)][-1] == 60


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("kafkagroups check", "required: PATH"),
        ("kafkagroups no-such-command", "no-such-command"),
        ("kafkagroups load . | head", "without a pipe"),
        ("ls", "Only one command kafkagroups can run here"),
    ],
)
def test_a_wrong_command_gets_one_sentence_and_no_traceback(command, answer, tmp_path, capsys):
    course.run_command(command, tmp_path)
    assert answer in capsys.readouterr().out
