"""Lesson 06: print the states of a group before and after a crash of its coordinator, for each request of a script."""

from __future__ import annotations

from collections.abc import Sequence

from kafkagroups.coordinator import DiskLogs, HeldLogs
from kafkagroups.course.broker import start_broker, start_follower
from kafkagroups.course.group_life import GroupLife
from kafkagroups.course.lesson_folders import make_scratch_folder
from kafkagroups.course.script_events import Event
from kafkagroups.course.scripts import TWO_CONSUMERS, ScriptRequest, play_script, select_requests, send_script_request
from kafkagroups.groups.classic_group import ClassicGroup


def print_crash_table(kafka: str = "3.9.2", script: Sequence[ScriptRequest] = TWO_CONSUMERS) -> None:
    """Print for each request the written records ("+"), the live state, and the loaded state, each with its generation.

    The loaded state is the one that the next coordinator loads from the log if this coordinator crashes after the
    request. If a request writes the group's record, the first of two lines shows the states after this coordinator
    appended the record, and the second after the replicas confirmed it.
    """
    requests = select_requests(script, kafka)
    print(f"    {'step':<25}{'':<5}{'in memory':<24}the next coordinator loads")
    for step_number, request in enumerate(requests, 1):
        logs = HeldLogs(DiskLogs(make_scratch_folder()), holds_answers=False)
        earlier_requests = requests[: step_number - 1]
        life = play_script(earlier_requests, kafka, start_broker(logs, kafka))
        lines_before = life.log_lines
        # Only SyncGroup and LeaveGroup can write the group's record. `logs` then holds back the replicas' confirmation.
        logs.holds_answers = request.method in ("sync", "leave")
        send_script_request(life, request)
        event = life.events[-1]
        end_offset_before = lines_before[-1].record_offset + 1 if lines_before else 0
        states = _format_states(life, end_offset_before if logs.held_appends else None)
        print(f"{step_number:>2}  {_format_request(event):<25}{'+' * len(event.written_lines):<5}{states}")
        if logs.held_appends:
            logs.release()
            print(f"{'':4}{'… confirmed':<25}{'':<5}{_format_states(life, None)}")


def _format_request(event: Event) -> str:
    if not event.client:
        return event.request
    request_name = event.request.split()[0].removesuffix(",")
    return f"{event.client} {request_name}"


def _format_states(life: GroupLife, end_offset: int | None) -> str:
    """Return the live state and the loaded states, with all records and with only those below `end_offset`."""
    state, generation, _ = life.read_state()
    live_state = f"{state} {generation}" if life.group else "Dead"
    next_coordinators = [start_follower(life.coordinator, life.group_id, log_end) for log_end in (None, end_offset)]
    loaded_groups = [coordinator.manager.get_group(life.group_id) for coordinator in next_coordinators]
    different_states = dict.fromkeys(_format_state(group) for group in loaded_groups)
    loaded_states = " or ".join(different_states)
    mark = "" if live_state == loaded_states else "   ◀ differs"
    return f"{live_state:<24}{loaded_states}{mark}"


def _format_state(group: ClassicGroup | None) -> str:
    return f"{group.state.value} {group.generation}" if group else "Dead"
