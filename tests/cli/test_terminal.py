"""What people see: names from a log cannot change a terminal's display, and every mistake is one line."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_hostile_names import escaped
from tests.command import escape

ROOT = Path(__file__).parents[2]
LOG = ROOT / "data" / "harbour" / "3.9.2" / "__consumer_offsets-9"


@pytest.mark.slow
def test_every_control_and_format_character_is_escaped():
    """All characters of Unicode that print nothing but change what is shown around them; other characters stay."""
    for start in range(0, sys.maxunicode + 1, 4096):
        everything = [chr(number) for number in range(start, start + 4096)]
        assert escape("".join(everything)) == "".join(map(escaped, everything))
    assert escape("grüße 日本\u3000🐟") == "grüße 日本\u3000🐟"
    assert escape("a\u202eb\x9b\n") == "a\\u202eb\\x9b\\n"


def test_all_text_is_printed_by_one_module():
    """In `cli`, only output.py calls `print`."""
    for path in sorted((ROOT / "kafkagroups" / "cli").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            is_print = isinstance(node, ast.Name) and node.id == "print"
            assert path.name == "output.py" or not is_print, f"{path.name}, line {node.lineno}"


LONG = "9" * 4301
"""A number that Python refuses to read: its limit is 4,300 digits."""


@pytest.mark.parametrize("number", ["9" * 21, LONG, f"-{LONG}", "1_000", "١٢", "", "1e3"])
@pytest.mark.parametrize(
    "command",
    [
        ["load", LOG, "--until"],
        ["load", LOG, "--until-time"],
        ["load", LOG, "--partitions"],
        ["load", LOG, "--max-batch-bytes"],
        ["load", LOG, "--kafka"],
        ["explain", LOG, "--group", "g", "--topic", "t", "--partition"],
        ["stats", LOG, "--top"],
        ["dump", LOG, "--from"],
        ["dump", LOG, "--type"],
        ["diff", LOG, "--since"],
        ["compact", LOG, "--out", "unused", "--now-ms"],
        ["partition", "g", "--partitions"],
        ["synth", "--out", "unused", "--width"],
        ["pull", "--out", "unused", "--partitions"],
    ],
    ids=lambda value: " ".join(map(str, value[2:])) if isinstance(value, list) else None,
)
def test_an_option_that_is_no_number_is_one_line(run, command, number):
    """A number has up to 20 digits from 0 to 9. Other texts are an error of one line."""
    status, out, err = run(
        *command[:-1], f"{command[-1]}={number}", *(["--bootstrap=b:1"] if "pull" in command else [])
    )
    assert (status, out, err.count("\n")) == (2, "", 1)


INTERRUPTED_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt)
"""


@pytest.mark.parametrize(
    ("start", "module"),
    [
        *(("python -m", f"kafkagroups.{name}") for name in ("errors", "cli", "cli.synth", "synth")),
        ("script", "kafkagroups.cli"),
    ],
)
def test_ctrl_c_while_the_command_starts(tmp_path, module, start):
    """Ctrl-C during the imports ends the command with exit code 130 and without a traceback."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTED_IMPORT.format(module=module))
    script = tmp_path / "kafkagroups"
    script.write_text("import sys\nfrom kafkagroups.cli import main\nsys.exit(main())\n")
    command = [str(script)] if start == "script" else ["-m", "kafkagroups"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    ended = subprocess.run(
        [sys.executable, *command, "synth", "--help"], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_ctrl_c_while_a_command_runs(tmp_path):
    """Ctrl-C in a command is one line and exit code 130. The name café-☕ needs rich.cells, late in the command."""
    coffee = LOG.with_name("__consumer_offsets-21")
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTED_IMPORT.format(module="rich.cells"))
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    ended = subprocess.run(
        [sys.executable, "-m", "kafkagroups", "stats", coffee],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (130, "kafkagroups: interrupted\n")


def test_another_package_that_imports_this_one_keeps_its_ctrl_c(tmp_path):
    """Only the command changes what Ctrl-C does: not a program, nor `python -m other`, where argv[0] is "-m", too."""
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "__init__.py").write_text("import kafkagroups\n")
    (folder / "__main__.py").write_text(
        "import signal\nprint(signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    program = "import signal, kafkagroups; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    for arguments in (["-m", "other"], ["-m", "other", "kafkagroups"], ["-mother"], ["-c", program]):
        ended = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
        assert ended.stdout == "True\n"
