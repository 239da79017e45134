"""The scripts of `completion` complete commands, options and choices in a real shell."""

import re
import subprocess


def complete(script, *words):
    """Return what bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in words)
    state = f"COMP_WORDS=({line})\nCOMP_CWORD={len(words) - 1}"
    program = f'{script}\n{state}\n_kafkagroups\necho "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


def list_commands(run):
    """Return the commands that the help lists."""
    return re.findall(r"^  ([a-z]+)  ", run("--help")[1], re.MULTILINE)


def test_bash_completes_commands_options_and_choices(run):
    """The words are those that the command line itself accepts."""
    _, script, _ = run("completion", "bash")
    assert complete(script, "kafkagroups", "") == list_commands(run)
    assert complete(script, "kafkagroups", "lo") == ["load"]
    assert complete(script, "kafkagroups", "load", "--until") == ["--until", "--until-time"]
    assert complete(script, "kafkagroups", "load", "--coordinator", "") == ["classic", "new"]
    assert complete(script, "kafkagroups", "rescue", "")[:2] == ["plan", "apply"]
    assert complete(script, "kafkagroups", "completion", "z") == ["zsh"]
    assert "--bootstrap" in complete(script, "kafkagroups", "rescue", "apply", "--b")


def test_zsh_and_fish(run):
    """zsh runs the script of bash, and fish has a line for each option."""
    status, script, _ = run("completion", "zsh")
    assert status == 0 and "bashcompinit" in script
    status, script, _ = run("completion", "fish")
    lines = script.splitlines()
    assert status == 0 and len([line for line in lines if "__fish_use_subcommand" in line]) == len(list_commands(run))
    assert any("-l coordinator" in line and "classic new" in line for line in lines)
