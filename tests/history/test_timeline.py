"""`timeline` of any log: both engines agree, it ends at the offsets that `load` answers, and its gaps are true."""

import random
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import kafkagroups as kg
from tests import handmade
from tests.captured import LONG, captured, folders
from tests.cases import case
from tests.engine.random_logs import random_log
from tests.engine.same import RULES
from tests.groups.small_logs import commit
from tests.groups.test_load_runs import DATA
from tests.handmade import LogRecord, encode_batch, write_segment
from tests.releases.sequences import encode_log, random_sequence

COORDINATORS = (("classic", "3.9.2"), ("new", "4.3.1"))
EVENTS = {
    "generation",
    "empty",
    "deleted",
    "commit",
    "rewind",
    "skip",
    "expired",
    "offset_deleted",
    "transaction_committed",
    "transaction_aborted",
    "transaction_open",
    "gap",
    "epoch",
    "standing_still",
    "assignment",
    "storm",
}
FIELDS = [
    "partition",
    "offset",
    "timestamp_ms",
    "event",
    "generation",
    "members_joined",
    "members_left",
    "leader",
    "protocol",
    "topic_partition",
    "from",
    "to",
    "producer_id",
    "what",
    "members",
    "replaced_instances",
]


def history(path, group, coordinator="new", kafka=None, **options):
    """Return the events as JSON, and check what holds for every timeline: the fields, and one sentence each."""
    result = kg.timeline(path, group, coordinator=coordinator, kafka=kafka, **options)
    events = result.to_json()
    for event in events:
        assert list(event) == FIELDS and event["event"] in EVENTS
        assert event["what"].endswith(".") and "\n" not in event["what"]
    places = [(-1 if event["partition"] is None else event["partition"]) for event in events]
    assert places == sorted(places)
    return events


def some_groups(path, coordinator, kafka, count):
    groups = list(kg.load(path, coordinator, kafka).partitions_of)
    return random.Random(1).sample(groups, min(count, len(groups)))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("family", ["runs", "crafted", "cleaner", "v440"])
def test_both_engines_give_the_same_timeline(family):
    """Up to four groups of every log of a run, one of other captured logs, and a group that no log contains."""
    for folder in folders(family):
        for coordinator, kafka in COORDINATORS:
            with case((folder.relative_to(captured(family)), coordinator)):
                count = 4 if family == "runs" else 1
                for group in [*some_groups(folder, coordinator, kafka, count), "no group"]:
                    options = {"coordinator": coordinator, "kafka": kafka, "all": True}
                    readable = history(folder, group, engine="python", **options)
                    assert history(folder, group, engine="auto", **options) == readable
                    assert bool(readable) == (group != "no group") or coordinator == "classic"


@pytest.mark.thorough
@pytest.mark.slow
def test_random_groups_have_the_same_timeline(tmp_path):
    """500 random logs (20,000 in the long profile), half of them with batches that are taken out."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    for seed in range(20_000 if LONG else 500):
        rnd = random.Random(seed)
        log = random_log(seed) if seed % 2 else encode_log(random_sequence(seed))
        (folder / f"{0:020}.log").write_bytes(log)
        if rnd.random() < 0.5:
            (folder / f"{0:020}.log").write_bytes(take_out_batches(folder, log, rnd))
        coordinator, kafka = rnd.choice(RULES)
        for group in some_groups(folder, coordinator, kafka, 3):
            with case((seed, group, coordinator, kafka)):
                options = {"coordinator": coordinator, "kafka": kafka, "all": rnd.random() < 0.5}
                readable = history(folder, group, engine="python", **options)
                assert history(folder, group, engine="auto", **options) == readable


def take_out_batches(folder, log, rnd):
    batches = list(kg.open_log(folder))
    return b"".join(log[b.position : b.position + b.size] for b in batches if rnd.random() < 0.8) or log


def replay(events):
    """Return the committed offsets after the events."""
    committed = {}
    for event in events:
        key = event["topic_partition"]
        if event["event"] in ("commit", "transaction_committed") and event["to"] is not None:
            committed[key] = event["to"]
        elif event["event"] in ("expired", "offset_deleted"):
            committed.pop(key, None)
        elif event["event"] == "deleted" and "with" in event["what"] and "without" not in event["what"]:
            committed.clear()
    return committed


def committed_offsets(groups, name):
    return {str(key): offset.offset for key, offset in groups[name].offsets.items()} if name in groups else {}


@pytest.mark.thorough
@pytest.mark.slow
def test_the_timeline_ends_at_the_offsets_of_a_load():
    """Every group of every log that real brokers wrote, if its load succeeds.

    A timeline tells the ends of transactions by the coordinator that wrote them. Where the other one loads the log and
    answers differently, the timeline names the writers, and ends at the offsets of their coordinator.
    """
    checked = 0
    for folder in (*folders("runs"), DATA / "3.9.2", DATA / "4.3.1", DATA / "1.0.1"):
        loads = {rules: kg.load(folder, *rules) for rules in COORDINATORS}
        for coordinator, kafka in COORDINATORS:
            groups = loads[coordinator, kafka]
            if groups.failed:
                continue
            for name, group in groups.items():
                with case((folder, name, coordinator)):
                    committed = replay(history(folder, name, coordinator, kafka, all=True))
                    if coordinator == "new" or group.type == "classic":
                        if committed != committed_offsets(groups, name):
                            assert kg.timeline(folder, name, coordinator=coordinator, kafka=kafka).writers
                            assert committed in [committed_offsets(loaded, name) for loaded in loads.values()]
                        checked += 1
    assert checked > 500


def records_of(folder, group):
    """Return each record of a group: partition and offset, key bytes, and whether it is a tombstone."""
    found = {}
    for path in sorted({file.parent for file in Path(folder).rglob("*.log")}):
        log = kg.open_log(path)
        for batch in log:
            for record in () if batch.is_control else batch.records:
                key = kg.decode(record.key, record.value).key
                if getattr(key, "group", getattr(key, "group_id", None)) == group:
                    found[log.partition, record.offset] = (record.key, record.value is None)
    return found


def cleaned_logs():
    """Yield the folder before Kafka's cleaner ran, and a folder after one of its passes."""
    for run in ("3.9.2-compaction", "4.3.1-compaction-short"):
        folder = captured("runs") / "runs" / run
        for after in ("after-clean", "after-clean-2", "after-clean-3"):
            yield folder / "before-clean", folder / after
    for after in ("after-clean", "after-clean-2"):
        yield DATA / "cleaning" / "before-clean", DATA / "cleaning" / after


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [pytest.param(*pair, id=pair[1].name) for pair in cleaned_logs()])
def test_a_gap_covers_what_the_cleaner_removed(before, after):
    """Kafka's own cleaner removed the records. Each removed record of the group is in a gap, and the gap says enough.

    "only deleted or aborted ones" means: the record was aborted, or the log has no record of its key any longer.
    Without these words, an older commit or generation of a key that is still there can be missing.
    """
    for group in kg.load(after).partitions_of:
        with case(group):
            gaps = [event for event in history(after, group) if event["event"] == "gap"]
            kept = records_of(after, group)
            removed = {place: content for place, content in records_of(before, group).items() if place not in kept}
            aborted = find_aborted(before, group)
            for (partition, offset), (key, _) in removed.items():
                covering = [gap for gap in gaps if gap["partition"] == partition and gap["from"] <= offset <= gap["to"]]
                assert covering, offset
                later = [o for (p, o), (k, _) in kept.items() if k == key and p == partition]
                if later and (partition, offset) not in aborted:
                    assert min(later) > offset, "the cleaner removed a newer record and kept an older one"
                    assert not any("only deleted or aborted" in gap["what"] for gap in covering)


def find_aborted(folder, group):
    story = kg.explain(folder, group)
    return {(entry.partition, entry.offset) for entry in story.history if entry.fate.value == "aborted"}


@pytest.mark.slow
def test_the_cleaner_changes_no_event_that_remains():
    """Each event of a cleaned log, except gaps, is also an event of the log before the pass."""
    for before, after in cleaned_logs():
        for group in kg.load(after).partitions_of:
            with case((after, group)):
                old = {identity(event) for event in history(before, group, all=True)}
                last = max(offset for _, offset, *_ in old) if old else -1
                for event in history(after, group, all=True):
                    # An offset whose commit was cleaned away is deleted without its old value.
                    if event["event"] not in ("gap", "offset_deleted") and event["offset"] <= last:
                        assert identity(event) in old, event


def identity(event):
    return event["partition"], event["offset"], event["event"], event["topic_partition"], event["to"]


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_gaps_are_the_offsets_that_are_missing(tmp_path_factory, kept):
    """Of a log with one batch for each offset, batches are taken out: the gaps are their offsets, without the last."""
    batches = [encode_batch([commit(offset, "g")]) for offset, is_kept in enumerate(kept) if is_kept]
    folder = write_segment(tmp_path_factory.mktemp("log"), b"".join(batches))
    expected = set(range(len(kept))) - {offset for offset, is_kept in enumerate(kept) if is_kept}
    expected -= set(range(max((o for o, is_kept in enumerate(kept) if is_kept), default=0), len(kept)))
    for engine in ("python", "auto"):
        gaps = [event for event in history(folder, "g", engine=engine) if event["event"] == "gap"]
        found = [offset for gap in gaps for offset in range(gap["from"], gap["to"] + 1)]
        assert found == (sorted(expected) if any(kept) else [])


def test_a_log_that_begins_later_has_a_gap_that_no_cleaner_made(tmp_path):
    """A copy without its first segments, or a log whose start was deleted: the file's name has the first offset."""
    folder = write_segment(tmp_path, encode_batch([commit(100, "g")]), base_offset=100)
    gap, _ = history(folder, "g")
    assert (gap["event"], gap["from"], gap["to"]) == ("gap", 0, 99)
    assert "The log begins at 100" in gap["what"] and "cleaned" not in gap["what"]
    (folder / f"{100:020}.log").rename(folder / f"{90:020}.log")
    gap, _ = history(folder, "g")
    assert "The log begins at 90" in gap["what"] and "10 records cleaned or not copied in 90 to 99" in gap["what"]
    said = "an admin tool, has committed these offsets, or its members are in a gap."
    assert kg.timeline(folder, "g").memberless.endswith(said), "the generation can be in an older segment"


def test_what_a_copy_misses_can_be_in_its_gap(tmp_path):
    """`pull --follow` was down while the cleaner of the brokers removed 3 to 59: two rebalances, and commits of g."""
    records = {0: handmade.generation(1, handmade.classic_member()), 1: handmade.commit_record(5)}
    records |= {2: handmade.commit_record(6, group="h"), 60: handmade.generation(4, handmade.classic_member())}
    data = b"".join(encode_batch([LogRecord(offset, 0, *kg.encode(each))]) for offset, each in records.items())
    _, _, gap, last = kg.timeline(write_segment(tmp_path, data), "g").events
    only = "if cleaned, of this group only deleted or aborted ones"
    assert gap.what == f"57 records cleaned or not copied in 3 to 59; {only}."
    assert "2 earlier generations (a rebalance did not end, an append failed, or a gap has it)" in last.what


def test_members_of_a_type_that_the_rules_do_not_read_are_members(tmp_path):
    """A classic coordinator skips the records of a consumer group, as after a downgrade."""
    records = [handmade.consumer_member(), handmade.consumer_epoch(1), handmade.commit_record(5)]
    log = handmade.write_batches(tmp_path, [(0, records)])
    assert kg.timeline(log, "g", coordinator="classic", kafka="3.9.2").memberless is None


def test_a_failed_load_still_has_its_history(tmp_path):
    """The records after the failure are in the timeline too, and the failure is one of its problems."""
    bad = LogRecord(1, 5, b"\0\2\0\1g", b"\0\x63")
    folder = write_segment(tmp_path, encode_batch([commit(0, "g"), bad, commit(2, "g")]))
    for engine in ("python", "auto"):
        result = kg.timeline(folder, "g", engine=engine, all=True)
        assert [event.offset for event in result.events] == [0, 2] and len(result.problems) == 1


def test_who_joined_is_unknown_if_the_earlier_generations_are_gone():
    """m1 was there in generation 1, which the cleaner removed, and m4 joined in generation 2 (actions.jsonl)."""
    run = captured("runs") / "runs" / "4.3.1-compaction-short"
    (before,) = [
        event for event in history(run / "before-clean", "k-sub") if event["generation"] == 2 and event["leader"]
    ]
    (after,) = [
        event for event in history(run / "after-clean", "k-sub") if event["generation"] == 2 and event["leader"]
    ]
    assert [member[:2] for member in before["members_joined"]] == ["m4"]
    assert after["members_joined"] == [] and "who joined is unknown" in after["what"]


@pytest.mark.parametrize("version", ["1.0.1", "3.9.2", "4.3.1"])
def test_a_group_that_never_had_a_member_is_named(version, run):
    """The shop's dashboard assigns its partitions itself: "no group value, ever" (kafka-story, act 3)."""
    rules = ("--coordinator", "classic" if version < "4" else "new", "--kafka", version)
    for group, expected in (("dashboard", True), ("billing", False), ("mailer", False)):
        _, out, _ = run("timeline", DATA / version, "--group", group, *rules)
        assert (f"No record says that {group} ever had a member" in " ".join(out.split())) == expected
