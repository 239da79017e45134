"""Lessons 08 and 11: logs that were made for a test, as lines, and what two real brokers answered after a load."""

from __future__ import annotations

from kafkagroups.api import load
from kafkagroups.course.lesson_folders import find_data
from kafkagroups.course.log_lines import Lines, read_lines
from kafkagroups.course.notebook_helpers import fetch_offsets, read_answers

_BROKERS = (("new", "4.3.1"), ("classic", "3.9.2"))


def read_crafted_lines(name: str) -> Lines:
    """Return one line for each record of a log in `data/crafted`. The group ids are shortened to one letter.

    Parameters
    ----------
    name
        The log's name, for example "b24".
    """
    return Lines(
        line if line.group is None else line._replace(group=_shorten(name, line.group))
        for line in read_lines(find_data(f"crafted/{name}"))
    )


def print_crafted_log(name: str) -> None:
    """Print the records of a log in `data/crafted`, and what both coordinators answer about its first group.

    The last words of a line say whether a real broker answered the same.

    Parameters
    ----------
    name
        The log's name, for example "b24".
    """
    print(*read_crafted_lines(name), sep="\n")
    recorded = read_answers("crafted")[name]
    group_id = recorded["groups"][0]
    for coordinator, version in _BROKERS:
        groups = load(find_data(f"crafted/{name}"), coordinator)
        state = groups[group_id].state.value if group_id in groups else "Dead"
        offsets = fetch_offsets(groups, [group_id])[group_id]
        broker = recorded[coordinator]
        is_same = (state, offsets) == (broker["groups"][group_id]["state"], broker["offsets"][group_id])
        answer = _describe_group(_shorten(name, group_id), state, offsets)
        verdict = f"✓ a {version} broker answered the same" if is_same else f"✗ a {version} broker answered differently"
        print(f"  {coordinator + ' coordinator:':<20} {answer:<24} {verdict}")


def _shorten(name: str, group_id: str) -> str:
    """Return the letter of a group id. The group ids of the log "b24" begin with "b24.g.", "b24.h." and so on."""
    return group_id.removeprefix(f"{name}.").partition(".")[0]


def _describe_group(letter: str, state: str, offsets: dict[str, dict[str, int]]) -> str:
    if state == "Dead":
        return f"no group {letter}"
    values = ", ".join(f"{partition} = {offset['offset']}" for partition, offset in sorted(offsets.items()))
    return f"{letter}: {values or 'no offsets'}"
