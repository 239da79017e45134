"""Printed tables of a script: two Kafkas' answers, and the group after each crash."""

from __future__ import annotations

from collections.abc import Sequence

from kafkagroups.coordinator import DiskLogs, HeldLogs
from kafkagroups.course.broker import start_broker, start_follower
from kafkagroups.course.folders import make_scratch_folder
from kafkagroups.course.life import Life
from kafkagroups.course.life_events import Event
from kafkagroups.course.what_if import TWO_CONSUMERS, Act, play_act, play_acts, select_acts
from kafkagroups.groups.classic_group import ClassicGroup


def compare_kafkas(old: str = "1.0.1", new: str = "3.9.2", acts: Sequence[Act] = TWO_CONSUMERS) -> None:
    """Print the requests that two Kafka versions answer differently.

    Parameters
    ----------
    old, new
        The two versions. Steps are numbered as in the script of the new one.
    acts
        The script.
    """
    old_responses = _list_responses(acts, old)
    new_responses = _list_responses(acts, new)
    steps = {number: step for step, number in enumerate(new_responses, 1)}
    print(f"{'step':<6}{'':<21}{old:<24}{new}")
    for number, act in enumerate(acts):
        old_response = old_responses.get(number, "not sent")
        new_response = new_responses.get(number, "not sent")
        if old_response != new_response:
            who = act.arguments[0] if act.arguments else "operator"
            print(f"{steps.get(number, ''):>4}  {f'{who} {act.request}':<21}{old_response:<24}{new_response}")


def print_crash_table(kafka: str = "3.9.2", acts: Sequence[Act] = TWO_CONSUMERS) -> None:
    """Print for each act what it wrote, the group's state, and the state that a next coordinator would load.

    A group's record has two lines: when it is in this broker's log, and when the replicas have confirmed it.

    Parameters
    ----------
    kafka
        The coordinator's Kafka version.
    acts
        The script.
    """
    script = select_acts(acts, kafka)
    for step, act in enumerate(script, 1):
        logs = HeldLogs(DiskLogs(make_scratch_folder()), holds_answers=False)
        life = play_acts(script[: step - 1], kafka, start_broker(logs, kafka))
        lines_before = life.log_lines
        # Only these requests can write the group's record.
        logs.holds_answers = act.request in ("sync", "leave")
        play_act(life, act)
        event = life.events[-1]
        end = lines_before[-1].at + 1 if lines_before else 0
        states = _compare_states(life, end if logs.held_appends else None)
        print(f"{step:>2}  {_name_request(event):<25}{'+' * len(event.written):<5}{states}")
        if logs.held_appends:
            logs.release()
            print(f"{'':4}{'… confirmed':<25}{'':<5}{_compare_states(life, None)}")


def _list_responses(acts: Sequence[Act], kafka: str) -> dict[int, str]:
    """Return the responses by the number of the act."""
    sent = [number for number, act in enumerate(acts) if select_acts([act], kafka)]
    responses = (event.response for event in play_acts(acts, kafka).events)
    return dict(zip(sent, responses, strict=True))


def _name_request(event: Event) -> str:
    if not event.who:
        return event.request
    return f"{event.who} {event.request.split()[0].removesuffix(',')}"


def _compare_states(life: Life, end: int | None) -> str:
    """Return the group's state, and the states that a next coordinator loads from the log, or from below `end`."""
    state, generation, _ = life.read_state()
    live = f"{state} {generation}" if life.group else "Dead"
    groups = [
        start_follower(life.coordinator, life.group_id, log_end).manager.get_group(life.group_id)
        for log_end in (None, end)
    ]
    loaded = " or ".join(dict.fromkeys(_name_state(group) for group in groups))
    return f"{live:<24}{loaded}" + ("" if live == loaded else "   ◀ differs")


def _name_state(group: ClassicGroup | None) -> str:
    return f"{group.state.value} {group.generation}" if group else "Dead"
