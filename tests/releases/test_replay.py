"""Random sequences of records of all types, loaded by each release's own GroupCoordinatorShard and by this package.

`python -m tests.releases.compare` loads more of them.
"""

import os

import pytest

from tests.releases.compare import compare
from tests.releases.kafka import coordinator_jars
from tests.releases.sequences import RELEASES

pytestmark = pytest.mark.broker
RARE = (610921,)
"""Seeds of sequences that once had a difference, beyond the sample: a group value of version 5 with members."""
COUNT = 20_000 if os.environ.get("KG_PROFILE") == "long" else 400


@pytest.mark.parametrize("release", RELEASES)
def test_a_random_sequence_loads_as_in_that_release(release):
    """The verdict, the offset of the record that fails, the groups, their members, offsets and pending commits."""
    if not (coordinator_jars(release) / ".complete").exists():
        pytest.skip(f"no jars of the coordinator of Kafka {release}: make brokers")
    found = [*compare(release, range(COUNT)), *compare(release, RARE)]
    assert not found, "\n".join(f"seed {difference.seed}: {difference.cause}" for difference in found)
