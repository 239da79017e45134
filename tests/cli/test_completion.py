"""The scripts of `completion` complete commands, options and choices in a real shell."""

import subprocess

from kafkagroups.cli import COMMANDS, main


def complete(script, *words):
    """Return what bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in words)
    state = f"COMP_WORDS=({line})\nCOMP_CWORD={len(words) - 1}"
    program = f'{script}\n{state}\n_kafkagroups\necho "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes_commands_options_and_choices(capsys):
    """The words are those that the command line itself accepts."""
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert complete(script, "kafkagroups", "") == list(COMMANDS)
    assert complete(script, "kafkagroups", "lo") == ["load"]
    assert complete(script, "kafkagroups", "load", "--until") == ["--until", "--until-time"]
    assert complete(script, "kafkagroups", "load", "--coordinator", "") == ["classic", "new"]
    assert complete(script, "kafkagroups", "rescue", "")[:2] == ["plan", "apply"]
    assert complete(script, "kafkagroups", "completion", "z") == ["zsh"]
    assert "--bootstrap" in complete(script, "kafkagroups", "rescue", "apply", "--b")


def test_zsh_and_fish(capsys):
    """zsh runs the script of bash, and fish has a line for each option."""
    assert main(["completion", "zsh"]) == 0
    assert "bashcompinit" in capsys.readouterr().out
    assert main(["completion", "fish"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if "__fish_use_subcommand" in line]) == len(COMMANDS)
    assert any("-l coordinator" in line and "classic new" in line for line in lines)
