"""Print the modules of the package that a load, a commit and an `explain` enter, in the order of their first call.

A reader who wants to follow one of them opens these files from the top to the bottom. A module is entered when one of
its functions is called; what only runs while the package is imported does not count.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import kafkagroups as kg
from kafkagroups.coordinator import Clock, OffsetCommit, Settings, start_broker

PACKAGE = Path(kg.__file__).parent
LOG = PACKAGE.parent / "data" / "harbour" / "4.3.1" / "__consumer_offsets-9"
COMMIT = {kg.TopicPartition("orders", 0): OffsetCommit(7)}


def trace(action: Callable[[], object]) -> dict[str, str]:
    """Return each module that the action enters, and the first function of it that was called."""
    first_calls: dict[str, str] = {}

    def note(frame: FrameType, event: str, _argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            first_calls.setdefault(str(path.relative_to(PACKAGE)), frame.f_code.co_qualname)

    action()  # What the first call imports is no part of it.
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return first_calls


def show(name: str, action: Callable[[], object]) -> None:
    entered = trace(action)
    print(f"{name}: {len(entered)} modules")
    for module, function in entered.items():
        print(f"  {module:<36} {function}")


def main() -> None:
    topic = kg.Topic(LOG, engine="python")
    show("load", topic.load)
    with TemporaryDirectory() as folder:
        coordinator = start_broker(folder, Clock(0), Settings("4.3.1", offsets_topic_num_partitions=1))
        show("commit", lambda: coordinator.offset_commit("billing", COMMIT))
    show("explain", lambda: topic.explain("billing"))


if __name__ == "__main__":
    main()
