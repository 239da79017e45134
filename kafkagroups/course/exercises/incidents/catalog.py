"""Every incident of lesson 14, in the order of the levels."""

from __future__ import annotations

from kafkagroups.course.exercises.incidents import (
    after_the_upgrade,
    dark_monitor,
    dead_cluster,
    empty_monday,
    endless_unstable,
    growing_partition,
    lag_of_the_dead,
    offset_goes_back,
    parse_errors,
    slow_failover,
)
from kafkagroups.course.exercises.incidents.incident import Incident

SEED = 14
"""The seed of the logs that `course.open_incident` writes."""

INCIDENTS: tuple[Incident, ...] = (
    growing_partition.INCIDENT,
    slow_failover.INCIDENT,
    empty_monday.INCIDENT,
    lag_of_the_dead.INCIDENT,
    after_the_upgrade.INCIDENT,
    dark_monitor.INCIDENT,
    parse_errors.INCIDENT,
    endless_unstable.INCIDENT,
    offset_goes_back.INCIDENT,
    dead_cluster.INCIDENT,
)
