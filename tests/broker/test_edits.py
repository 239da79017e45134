"""Brokers load the logs that `edit` writes, and answer what our loader says of the same bytes.

Each kind of step changes captured logs of brokers of four versions, each in its own partition. Both brokers load all of
them: the logs of their own coordinator and those of the other one. The expectations are the broker's answers.
"""

import itertools

import pytest

import kafkagroups as kg
from tests.broker.broker import CLASSIC
from tests.captured import captured

pytest.importorskip("kafka", reason="no kafka-python")
from tests.broker import client, material
from tests.broker.test_brokers import described, failed, ours_of_all_topics

pytestmark = pytest.mark.broker

RUNS = ("1.0.1-txn", "2.8.2-basic", "3.9.2-main", "4.3.1-main", "4.3.1-next")
UNSTABLE = 88
GROUP_ID_NOT_FOUND = 69
DAY_MS = 86_400_000


def find_open_producers(path):
    """The producers with pending commits under either coordinator."""
    loads = (kg.load(path, coordinator) for coordinator in ("classic", "new"))
    return sorted({producer for groups in loads for group in groups.values() for producer in group.pending})


def find_committed(path):
    """Each group with its first committed topic-partition."""
    groups = kg.load(path)
    return {name: str(min(group.offsets)) for name, group in groups.items() if group.offsets}


def find_batches(path):
    return [batch for batch in kg.open_log(path) if batch.base_offset > 0]


def commits(path, home, coordinator):
    new_group = next(f"new:{n}" for n in itertools.count() if kg.partition_for(f"new:{n}", material.PARTITIONS) == home)
    steps = [("commit", f"{group}:{partition}=777") for group, partition in find_committed(path).items()]
    return [*steps, ("commit", f"{new_group}:orders-0=5"), ("commit", f"{new_group}:orders-1=6@1800000000000")]


def tombstones(path, home, coordinator):
    return [("tombstone", f"{group}:{partition}") for group, partition in find_committed(path).items()]


def deletions(path, home, coordinator):
    """Every second group of each type that the coordinator of the log's writer has."""
    by_type = {}
    for name, group in kg.load(path, coordinator).items():
        if coordinator == "new" or not group.pending:  # The classic coordinator could not load the result.
            by_type.setdefault(group.type, []).append(name)
    return [("delete-group", name) for names in by_type.values() for name in names[::2]]


def commit_markers(path, home, coordinator):
    return [("marker", f"commit:{producer}") for producer in find_open_producers(path)]


def abort_markers(path, home, coordinator):
    return [("marker", f"abort:{producer}") for producer in find_open_producers(path)]


def cuts(path, home, coordinator):
    batches = find_batches(path)
    return [("cut", batches[len(batches) * 2 // 3].last_offset)]


def cuts_at_a_time(path, home, coordinator):
    batches = find_batches(path)
    return [("cut-time", batches[len(batches) // 2].max_timestamp)]


def rolls(path, home, coordinator):
    return [("roll", None), *commits(path, home, coordinator), ("roll", None)]


def passes(path, home, coordinator):
    newest = max(batch.max_timestamp for batch in kg.open_log(path))
    ends = [*deletions(path, home, coordinator), *abort_markers(path, home, coordinator), ("roll", None)]
    later = [*commits(path, home, coordinator), ("roll", None)]
    return [*ends, ("clean", newest), *later, ("clean", newest + 2 * DAY_MS)]


KINDS = (commits, tombstones, deletions, commit_markers, abort_markers, cuts, cuts_at_a_time, rolls, passes)


def write(folder, originals):
    """Write all edits below `folder`. Return how many there are of each kind."""
    home = 0
    counts = dict.fromkeys(KINDS, 0)
    for run in RUNS:
        coordinator = "new" if run.startswith("4.") else "classic"
        for path in sorted(captured("runs").glob(f"runs/{run}/log/__consumer_offsets-*")):
            for kind in KINDS:
                original = originals / material.name(home)
                material._write_renamed(path, original, home)
                steps = kind(original, home, coordinator)
                if steps:
                    kg.edit(original, folder / material.name(home), steps)
                    counts[kind] += 1
                home += 1
    assert home <= material.PARTITIONS
    return counts


@pytest.fixture(scope="module")
def edits(tmp_path_factory):
    """The folder of the edited logs. Each kind of step is there several times."""
    folder = tmp_path_factory.mktemp("edits")
    counts = write(folder / "edited", folder / "originals")
    assert min(counts.values()) >= 5, counts
    return folder / "edited"


@pytest.fixture(scope="module")
def loaded(broker, edits, tmp_path_factory):
    """A broker that has just loaded the edited logs. Afterwards, their partitions are empty again."""
    broker.place(edits)
    broker.start()
    try:
        broker.wait_until_loaded()
        yield broker
    finally:
        broker.stop()
        empty = tmp_path_factory.mktemp("empty")
        for log in edits.iterdir():
            (empty / log.name).mkdir()
        broker.place(empty)


@pytest.fixture(scope="module")
def ours(loaded, edits):
    """What we say of the edited logs."""
    coordinator = "classic" if loaded.version == CLASSIC else "new"
    return kg.load(edits, coordinator, loaded.version, partitions=loaded.partitions)


@pytest.fixture(scope="module")
def ask(loaded):
    with client.asking(loaded.address) as ask:
        yield ask


def test_failed_loads(loaded, ours, edits):
    """The broker fails to load the partitions of which we say so."""
    placed = {int(log.name.rpartition("-")[2]) for log in edits.iterdir()}
    assert loaded.failed() & placed == set(ours.failed)
    assert len(ours.failed) < len(placed) / 10


@pytest.mark.parametrize("stable", [False, True])
def test_committed_offsets(ours, ask, stable):
    """OffsetFetch of all topics answers the offsets that we load, and which of them are unstable."""
    asked = [group for group in ours.partitions_of if not failed(ours, group)]
    theirs = client.offsets(ask, asked, stable=stable)
    mine = {}
    for group, answer in theirs.items():
        if answer == GROUP_ID_NOT_FOUND and (group not in ours or ours[group].type == "share"):
            mine[group] = answer
        else:
            mine[group] = ours_of_all_topics(ours, group, stable=stable)
    assert len(theirs) > 300 and mine == theirs


def test_pending_offsets(ours, ask):
    """OffsetFetch of named partitions with requireStable answers UNSTABLE_OFFSET_COMMIT where we say pending."""
    pending = {
        group: {str(key) for offsets in holder.pending.values() for key in offsets}
        for group, holder in [*ours.items(), *ours.orphans.items()]
        if holder.pending and not failed(ours, group)
    }
    theirs = client.named_offsets(ask, pending)
    unstable = {group: {tp for tp, said in answer.items() if said == UNSTABLE} for group, answer in theirs.items()}
    assert pending and unstable == pending


def test_described_groups(ours, ask):
    """DescribeGroups answers state, protocol and members of every classic group, and Dead for all others."""
    asked = [group for group in ours.partitions_of if not failed(ours, group)]
    theirs = {}
    for group, answer in client.describe(ask, asked).items():
        theirs[group] = (answer.group_state, answer.protocol_type, answer.protocol_data, client.members_of(answer))
    assert theirs == {group: described(ours.get(group)) for group in asked}


def test_listed_groups(ours, ask):
    """ListGroups lists the groups that we load, with protocol type, state and type."""
    theirs = {name: said for name, said in client.listed(ask).items() if name in ours.partitions_of}
    mine = {}
    for name, group in ours.items():
        protocol_type = group.protocol_type if group.type == "classic" else group.type
        mine[name] = (protocol_type, group.state.value, group.type)
    assert theirs == mine
