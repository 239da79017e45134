"""Every incident of lesson 14, in the order of the levels."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

from kafkagroups.course.exercises.incidents.incident import Incident, read_incident
from kafkagroups.errors import UsageError

SEED = 14
"""The seed of the logs that `course.open_incident` writes."""

INCIDENTS: tuple[Incident, ...] = tuple(
    sorted(map(read_incident, Path(__file__).parent.glob("*.md")), key=attrgetter("number"))
)


def find_incident(name: str) -> Incident:
    for incident in INCIDENTS:
        if incident.name == name:
            return incident
    names = ", ".join(incident.name for incident in INCIDENTS)
    raise UsageError(f"there is no incident {name!r}; the incidents are {names}")
