"""Does a coordinator load the same from a log as from what the cleaner leaves of it?"""

import shutil
import tempfile
from pathlib import Path

import kafkagroups as kg
from kafkagroups.log.cleaner import DEFAULT_CAPACITY
from tests.groups.small_logs import MINUTE, START, write

DAY = 24 * 60 * MINUTE


def state(folder, coordinator):
    groups = kg.load(folder, coordinator)
    return groups, groups.failed


def cleaned(folder, scratch, passes, first_time, map_entries=None):
    """The log after some passes, two days apart, so that each finds the horizons of the one before expired.

    With a small offset map (`map_entries`) a pass ends early, and the next one goes on where it ended.
    """
    dirty = None
    for number in range(passes):
        out = scratch / f"pass-{number}" / folder.name
        time = first_time + number * 2 * DAY
        config = kg.CleanerConfig(now_ms=time, first_dirty=dirty, map_entries=map_entries or DEFAULT_CAPACITY)
        done = kg.compact(folder, out, config)
        dirty = done.next_dirty_offset or dirty if map_entries else None
        folder = out
    return folder


def differs(steps, rolls, coordinator, passes=3, cut=None, map_entries=None):
    """What a coordinator answers otherwise after cleaning; {} when nothing.

    With `cut` the log is cleaned when it has only that many steps, and the others are appended afterwards.
    """
    scratch = Path(tempfile.mkdtemp(prefix="kafkagroups-"))
    try:
        cut = len(steps) if cut is None else cut
        whole = write(scratch / "whole" / "__consumer_offsets-0", steps, {*rolls, cut})
        before = write(scratch / "before" / "__consumer_offsets-0", steps[:cut], rolls)
        after = cleaned(before, scratch, passes, START + len(steps) * MINUTE, map_entries)
        last = max((int(file.stem) for file in before.glob("*.log")), default=-1)
        for file in whole.glob("*.log"):
            if int(file.stem) > last:
                shutil.copy(file, after)
        a, failed_before = state(whole, coordinator)
        b, failed_after = state(after, coordinator)
        found = {name: keys for name, keys in kg.diff(a, b).items() if keys}
        if bool(failed_before) != bool(failed_after):
            found["failed"] = (failed_before, failed_after)
        return found
    finally:
        shutil.rmtree(scratch)
