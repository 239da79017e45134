"""The commands of docs/operator.md run, and its excerpts are what they print."""

import re
import shlex
from pathlib import Path
from string import Template

import pytest

from tests.command import main

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "operator.md").read_text()

NEEDS_A_BROKER = ("pull", "rescue apply")

LOGS = {
    "3.9.2": {"GROUP": "fraud-check", "TOPIC": "payments", "P": "1", "RETENTION": "7d"},
    "4.3.1": {"GROUP": "fraud-check", "TOPIC": "payments", "P": "1", "RETENTION": "7d"},
}
"""The harbour's logs. In both, a transaction of fraud-check is open, and its producer id is 1."""


def commands():
    """Every `kafkagroups …` line of a code block, and every one in a sentence, in the order of the page."""
    blocks = re.findall(r"^(kafkagroups .+)$", PAGE, re.M)
    sentences = re.findall(r"`(kafkagroups [a-z]+ [^`]+)`", re.sub(r"^```.*?^```", "", PAGE, flags=re.M | re.S))
    return list(dict.fromkeys(blocks + [line for line in sentences if "$" in line]))


def needs_a_broker(line):
    return line.removeprefix("kafkagroups ").startswith(NEEDS_A_BROKER)


def arguments(line, values):
    return shlex.split(Template(line).substitute(values))[1:]


def excerpts():
    """Each excerpt with the command that the comment above it names."""
    return re.findall(r"^<!-- kafkagroups (.+?) -->\n```text\n(.+?)^```", PAGE, re.M | re.S)


@pytest.mark.parametrize("kafka", LOGS)
def test_the_commands_run(kafka, monkeypatch, tmp_path, capsys):
    """Every command of the page exits with 0 on the logs of a healthy broker."""
    monkeypatch.chdir(tmp_path)
    log = ROOT / "data" / "harbour" / kafka
    part = log / "__consumer_offsets-9"
    values = LOGS[kafka] | {"KAFKA": kafka, "LOG": str(log), "OTHER": str(log), "PART": str(part)}
    ran = 0
    for line in commands():
        if not needs_a_broker(line):
            (tmp_path / "plan.json").unlink(missing_ok=True)
            assert main(arguments(line, values)) == 0, f"{line}\n{capsys.readouterr().err}"
            ran += 1
    assert ran >= 31


def test_the_commands_that_connect_have_valid_options(monkeypatch):
    """`pull` and `rescue apply` need a broker: here, only their options are read."""
    lines = [line for line in commands() if needs_a_broker(line)]
    assert len(lines) == 6
    given = []
    for command in ("pull", "rescue"):
        monkeypatch.setattr(f"kafkagroups.cli.{command}.run", lambda args: given.append(args.bootstrap) or 0)
    for line in lines:
        assert main(arguments(line, {"BROKER": "broker-1:9092"})) == 0, line
    assert given == ["broker-1:9092"] * 6


@pytest.mark.parametrize(("command", "excerpt"), excerpts())
def test_excerpts_are_what_the_command_prints(command, excerpt, monkeypatch, capsys):
    """The lines of an excerpt stand in the command's output in this order. Lines in between may be left out."""
    monkeypatch.chdir(ROOT)
    main(shlex.split(command))
    printed = " ".join(capsys.readouterr().out.split())
    for line in excerpt.splitlines():
        _, found, printed = printed.partition(" ".join(line.split()))
        assert found, line
