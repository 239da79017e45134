"""The cases of `releases`: the same bytes, loaded by fourteen coordinators of thirteen releases of Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.captured import captured

LEFT_OUT = {"rodd-size": "group.max.size is not applied to a loaded log", "rodd-timeout": "a timer ends the rebalance"}
"""Cases whose answers depend on a broker's settings and timers."""


class Load(NamedTuple):
    """One case in one release."""

    case: dict[str, Any]
    release: str
    """As the cases write it: 4.3.1, 3.9.2-classic, 3.9.2-new."""
    coordinator: str
    kafka: str
    folder: Path
    answers: dict[str, Any] | None
    """None if this release's answers are not there."""

    @property
    def fails(self) -> bool:
        return self.case["verdicts"][self.release]["load"] == "failed"


def loads() -> Iterator[Load]:
    """Yield every case in every release that loaded it."""
    for file in sorted((captured("releases") / "releases" / "cases").glob("*/case.json")):
        case = json.loads(file.read_text())
        answers = {release: answer for answer in case["answers"] for release in answer["kafka"]}
        folder = file.parent / f"__consumer_offsets-{case['partition']}"
        for release in case["verdicts"]:
            kafka, _, kind = release.partition("-")
            coordinator = "classic" if kind == "classic" else "new"
            yield Load(case, release, coordinator, kafka, folder, answers.get(release))
