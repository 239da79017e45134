"""Incident 10 of lesson 14: a rescue plan is applied to a new broker, which is started for it.

The real broker (Kafka 4.3.1) needs Java, its jars (`make brokers KAFKA=4.3.1`) and kafka-python. If something is
missing, the plan is compared with what a real broker answered after the right plan (data/incidents/dead-cluster.json).

If the environment variable KAFKAGROUPS_BROKER is "recorded", no broker is started.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from IPython.display import display

from kafkagroups.api import apply_rescue
from kafkagroups.course.exercises.incidents.incident import Page, find_incident, write_incident
from kafkagroups.course.lesson_folders import find_data, make_scratch_folder, read_output
from kafkagroups.course.real_broker import RealBroker, has_jars
from kafkagroups.errors import UsageError
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.repair.client import create_topics
from kafkagroups.repair.plan import RescuePlan, check_targets, read_plan
from kafkagroups.spark.session import NoJava, find_java

VARIABLE = "KAFKAGROUPS_BROKER"
RECORDED = "recorded"
KAFKA = "4.3.1"
PARTITIONS = 50
FETCH_JARS = f"make brokers KAFKA={KAFKA}"
INSTALL_CLIENT = ".venv/bin/python -m pip install -r locks/live.txt"
"""Both commands work in the folder of the project, and in the copy for a workshop."""
ANSWERS_FILE = "incidents/dead-cluster.json"
PLAN_COMMAND = "kafkagroups rescue plan . --kafka 3.9.2 --past-damage --out plan.json"
Offsets = dict[tuple[str, TopicPartition], int]
"""Committed offsets by group id and topic-partition."""


@dataclass(frozen=True)
class RecordedAnswers:
    """What a new Kafka 4.3.1 broker answered after the right plan was applied to it."""

    topics: dict[str, int]
    records: int
    offsets: Offsets


def rescue_into_new_broker(plan: str | Path) -> None:
    """Apply a plan that `kafkagroups rescue plan --out` has written to a new broker, and print its answer for each
    offset.

    You may have edited the plan. The whole takes about 20 seconds.
    """
    path = Path(plan)
    if not path.exists():
        print(f"There is no plan {path} yet. `kafkagroups rescue plan --help` says how to write one.")
        return
    try:
        content = read_plan(path)
        check_targets(content)
    except UsageError as error:
        print(f"The plan cannot be used: {error}")
        return
    recorded = read_recorded_answers()
    missing = find_missing()
    if not missing:
        try:
            answered = ask_new_broker(path, content, recorded)
        except (UsageError, OSError, subprocess.SubprocessError) as error:
            # The first line has the reason. The log that follows it is long.
            missing = [f"the new broker failed ({str(error).splitlines()[0]})"]
    if missing:
        print(f"The answers below are recorded: a real Kafka {KAFKA} broker gave them to the right plan.")
        print(f"On this machine, no broker has answered: {'; '.join(missing)}.")
        print_comparison(read_planned_offsets(content), recorded.offsets, ("your plan", "recorded"))
    else:
        print_comparison(answered, recorded.offsets, ("new broker", "right"))


def show_worked_rescue() -> None:
    """Show the commands and the code that rescue the groups of incident 10, and what a new broker then answers."""
    incident = find_incident("dead_cluster")
    folder = make_scratch_folder() / incident.folder_name
    write_incident(incident, folder)
    read_output(PLAN_COMMAND, folder)
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    correct_plan(plan)
    corrected = folder / "corrected.json"
    corrected.write_text(json.dumps(plan), encoding="utf-8")
    parts = (
        "**The plan.** 3.9.2 skips the records 295 and 298 of partition 20, and 4.x fails at them. `--past-damage` "
        "also reads what comes after the damaged batch.",
        f"```text\n$ {PLAN_COMMAND}\n```",
        "**The correction.** A 3.9.2 broker keeps the group that it loads first, and loads in any order (lesson 02). "
        "The tool loads in the order of the numbers, and the old partitions have the lower ones here. So this plan has "
        "the old offsets of all six moved groups. That is right for `bean-orders`. The five groups that were set at "
        "02:16 get their new offsets:",
        f"```python\nimport json\nfrom typing import Any\n\n\n{inspect.getsource(correct_plan)}\n\n{CORRECTION}```",
        "**The new broker.**",
    )
    display(Page("\n\n".join(parts)))  # type: ignore[no-untyped-call]
    rescue_into_new_broker(corrected)


CORRECTION = """path = folder / "plan.json"
plan = json.loads(path.read_text())
correct_plan(plan)
path.write_text(json.dumps(plan, indent=1))
"""


def correct_plan(plan: dict[str, Any]) -> None:
    """Give the groups that were set at 02:16 the offsets of their new partition."""
    for group_id in ("bread-plan", "coupon-check", "gift-cards", "menu-board", "oven-view"):
        group = plan["groups"][group_id]
        group["offsets"] = {name: {"offset": other["offset"]} for name, other in group["left_out"].items()}


def find_missing() -> list[str]:
    if os.environ.get(VARIABLE) == RECORDED:
        return [f"the environment has {VARIABLE}={RECORDED}"]
    missing = []
    try:
        find_java()
    except NoJava as error:
        missing.append(f"it needs Java 17 or newer, but there is {error.found}")
    if not has_jars(KAFKA):
        missing.append(f"the jars of Kafka {KAFKA} are missing (`{FETCH_JARS}` fetches them with Maven)")
    if importlib.util.find_spec("kafka") is None:
        missing.append(f"the Python package kafka-python is missing (`{INSTALL_CLIENT}` installs it)")
    return missing


def read_recorded_answers() -> RecordedAnswers:
    content = json.loads(Path(find_data(ANSWERS_FILE)).read_text(encoding="utf-8"))
    offsets = {
        (group, TopicPartition.parse(name)): offset
        for group, answers in content["answers"].items()
        for name, offset in answers.items()
    }
    return RecordedAnswers(content["topics"], content["records"], offsets)


def read_planned_offsets(plan: RescuePlan) -> Offsets:
    """Return the offsets of a plan. The group ids are those of the new cluster."""
    return {(group.to, key): planned.offset for group in plan.groups.values() for key, planned in group.offsets.items()}


def ask_new_broker(path: Path, plan: RescuePlan, recorded: RecordedAnswers) -> Offsets:
    """Start a broker, apply a plan to it, stop it, and return the committed offsets of all groups. Each step is
    printed.

    Raises UsageError if a step fails.
    """
    with (
        TemporaryDirectory(prefix="kafkagroups-broker-") as folder,
        RealBroker(KAFKA, Path(folder), PARTITIONS) as broker,
    ):
        print(f"Step 1 of 4: start a Kafka {KAFKA} broker on {broker.address}.", flush=True)
        broker.start()
        print(f"Step 2 of 4: create the {len(recorded.topics)} topics of the shop.", flush=True)
        create_topics(broker.address, recorded.topics, recorded.records)
        command = f"kafkagroups rescue apply {shlex.quote(str(path))} --bootstrap {broker.address} --yes"
        print(f"Step 3 of 4: {command}", flush=True)
        rows = [json.loads(line) for line in read_output(f"{command} --json", ".").splitlines()]
        print("Step 4 of 4: ask the broker for the offsets of all groups.", flush=True)
        # A new broker has no other offsets than those of the plan.
        answers = {(row.group, row.topic_partition): row.now for row in apply_rescue(plan, broker.address)}
    for row in rows:
        if row["result"] == "refused":
            print(f"Refused: {row['group']}, {row['topic_partition']}: {row['why']}")
    return {key: offset for key, offset in answers.items() if offset is not None}


def print_comparison(answers: Offsets, right: Offsets, columns: tuple[str, str]) -> None:
    keys = sorted({*answers, *right})
    count = 0
    print(f"\n  {'group':<16} {'topic-partition':<16} {columns[0]:>10} {columns[1]:>10}")
    for group, key in keys:
        answer = answers.get((group, key))
        wanted = right.get((group, key))
        count += answer == wanted
        mark = "✓" if answer == wanted else "✗"
        print(f"{mark} {group:<16} {key!s:<16} {_show(answer):>10} {_show(wanted):>10}")
    print(f"\n{count} of {len(keys)} offsets are right.")


def _show(offset: int | None) -> str:
    return "none" if offset is None else str(offset)
