"""Logs that brokers of thirteen releases loaded from the same bytes: the verdict and the answers of each release."""

import pytest

import kafkagroups as kg
from tests.releases.answers import differences
from tests.releases.cases import LEFT_OUT, loads

RELEASES = sorted({load.release for load in loads()})


def releases_and_engines():
    """Yield each release with each engine; 4.3.1, which has loaded every case, is quick enough for `make check`."""
    for release in RELEASES:
        for engine in ("python", "compiled"):
            is_quick = (release, engine) == ("4.3.1", "python")
            yield pytest.param(release, engine, marks=() if is_quick else pytest.mark.slow)


@pytest.mark.parametrize(("release", "engine"), list(releases_and_engines()))
def test_a_log_loads_as_in_that_release(release, engine):
    """A load fails in exactly the releases where the broker's load failed, and answers as that release otherwise."""
    found = []
    for load in loads():
        if load.release != release:
            continue
        name = load.case["id"]
        groups = kg.load(load.folder, load.coordinator, load.kafka, engine=engine)
        (partition,) = groups.partitions.values()
        if (partition.error is not None) != load.fails:
            found.append(f"{name}: {load.case['verdicts'][release]}, found {partition.error}")
        elif load.answers is not None and name not in LEFT_OUT:
            found += [f"{name}: {difference}" for difference in differences(groups, load.answers)]
    assert not found, "\n".join(found)
