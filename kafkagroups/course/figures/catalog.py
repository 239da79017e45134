"""Every figure of the course, by name, with the content that its lesson shows.

Tests, the pages without a kernel, and the pictures of the README build their figures from this catalog.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkagroups.course.figures.commit_and_power_cut import CommitAndPowerCut
from kafkagroups.course.figures.failover import Failover
from kafkagroups.course.figures.figure import Figure

FIGURES: dict[str, Callable[[], Figure]] = {
    "commit-and-power-cut": lambda: CommitAndPowerCut("commit 5", "confirm 5", "commit 6", "cache 6", "answer 6"),
    "failover": Failover,
}
"""The keys are the names of files and of tests."""
