"""Lesson 06: tables of a script: the answers of two Kafka versions, states after a crash."""

from __future__ import annotations

from collections.abc import Sequence

from kafkagroups.coordinator import DiskLogs, HeldLogs
from kafkagroups.course.broker import start_broker, start_follower
from kafkagroups.course.folders import make_scratch_folder
from kafkagroups.course.group_events import Event
from kafkagroups.course.group_life import GroupLife
from kafkagroups.course.scripts import TWO_CONSUMERS, ScriptRequest, play_script, select_requests, send_script_request
from kafkagroups.groups.classic_group import ClassicGroup


def compare_kafka_versions(
    old: str = "1.0.1", new: str = "3.9.2", script: Sequence[ScriptRequest] = TWO_CONSUMERS
) -> None:
    """Print the requests of a script to which two Kafka versions give different answers.

    Parameters
    ----------
    old, new
        The two versions. Not every version has all requests, so a request has a step number for each version. The table
        shows the step numbers of the new version.
    script
        The requests.
    """
    old_responses = _list_responses(script, old)
    new_responses = _list_responses(script, new)
    steps = {number: step for step, number in enumerate(new_responses, 1)}
    print(f"{'step':<6}{'':<21}{old:<24}{new}")
    for number, request in enumerate(script):
        old_response = old_responses.get(number, "not sent")
        new_response = new_responses.get(number, "not sent")
        if old_response != new_response:
            client = request.arguments[0] if request.arguments else "operator"
            print(f"{steps.get(number, ''):>4}  {f'{client} {request.method}':<21}{old_response:<24}{new_response}")


def print_crash_table(kafka: str = "3.9.2", script: Sequence[ScriptRequest] = TWO_CONSUMERS) -> None:
    """Print a line for each request: the written records, the group's state, and the state after a crash.

    Each "+" is a written record. A state is followed by the group's generation. The state after a crash is the state
    that the next coordinator loads from the log. If a request writes the group's record, there are two lines: one after
    this broker appended the record, and one after the replicas confirmed the record.

    Parameters
    ----------
    kafka
        The coordinator's Kafka version.
    script
        The requests.
    """
    requests = select_requests(script, kafka)
    for step, request in enumerate(requests, 1):
        logs = HeldLogs(DiskLogs(make_scratch_folder()), holds_answers=False)
        life = play_script(requests[: step - 1], kafka, start_broker(logs, kafka))
        lines_before = life.log_lines
        # Only these two requests can write the group's record.
        logs.holds_answers = request.method in ("sync", "leave")
        send_script_request(life, request)
        event = life.events[-1]
        end_offset = lines_before[-1].record_offset + 1 if lines_before else 0
        states = _compare_states(life, end_offset if logs.held_appends else None)
        print(f"{step:>2}  {_format_request(event):<25}{'+' * len(event.written_lines):<5}{states}")
        if logs.held_appends:
            logs.release()
            print(f"{'':4}{'… confirmed':<25}{'':<5}{_compare_states(life, None)}")


def _list_responses(script: Sequence[ScriptRequest], kafka: str) -> dict[int, str]:
    """Return the response to each request, by the request's position in the script.

    The result does not contain the requests that this Kafka version does not have.
    """
    sent_positions = [number for number, request in enumerate(script) if select_requests([request], kafka)]
    responses = (event.response for event in play_script(script, kafka).events)
    return dict(zip(sent_positions, responses, strict=True))


def _format_request(event: Event) -> str:
    if not event.client:
        return event.request
    return f"{event.client} {event.request.split()[0].removesuffix(',')}"


def _compare_states(life: GroupLife, end_offset: int | None) -> str:
    """Return the group's state, and the state that the next coordinator loads from the log.

    If `end_offset` is not None, add the state that the next coordinator loads if its copy of the log ends at this
    offset.
    """
    state, generation, _ = life.read_state()
    live_state = f"{state} {generation}" if life.group else "Dead"
    groups = [
        start_follower(life.coordinator, life.group_id, log_end).manager.get_group(life.group_id)
        for log_end in (None, end_offset)
    ]
    loaded_states = " or ".join(dict.fromkeys(_format_state(group) for group in groups))
    return f"{live_state:<24}{loaded_states}" + ("" if live_state == loaded_states else "   ◀ differs")


def _format_state(group: ClassicGroup | None) -> str:
    return f"{group.state.value} {group.generation}" if group else "Dead"
