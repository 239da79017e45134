"""Every incident of lesson 14, in the order of the levels."""

from __future__ import annotations

from kafkagroups.course.exercises.incidents import growing_partition, slow_failover
from kafkagroups.course.exercises.incidents.incident import Incident

SEED = 14
"""The seed of the logs that `course.open_incident` writes."""

INCIDENTS: tuple[Incident, ...] = (growing_partition.INCIDENT, slow_failover.INCIDENT)
"""The incidents by ascending number."""
