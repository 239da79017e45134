"""The command `diff`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from itertools import chain
from typing import Any

from kafkagroups.api import diff
from kafkagroups.cli import answers
from kafkagroups.cli.options import Options
from kafkagroups.cli.output import print_table, print_text
from kafkagroups.errors import UsageError
from kafkagroups.history import replicas
from kafkagroups.history.finding import count_of, describe_time, describe_topic, list_names, name_record
from kafkagroups.history.replicas import Change, Healing, Replicas, describe_answer, describe_difference
from kafkagroups.log.fork import Branch
from kafkagroups.log.segments import Stop
from kafkagroups.records.releases import rules_to_json
from kafkagroups.topic import Topic

ARGUMENTS = """
PATH...  two logs, or one log with an option below
--coordinators  compare the two coordinators on one log: a is the classic coordinator, b is the new coordinator
--since N  compare two moments of one log: a is the state before the first batch whose base offset is N or more
--since-time T  compare two moments of one log: a is the state at this time; --until and --until-time then end only b
--until --until-time --coordinator --kafka --partitions --max-batch-bytes --past-damage --json
"""
EXAMPLES = """\
  kafkagroups diff replica-1/__consumer_offsets-12 replica-2/__consumer_offsets-12
  kafkagroups diff LOG --coordinators
  kafkagroups diff LOG --since-time 2026-11-21T10:00 --until-time 2026-11-21T10:05"""


def run(args: Options) -> int:
    compares_moments = args.since is not None or args.since_time is not None
    if args.coordinators and compares_moments:
        raise UsageError("--coordinators cannot be used with --since or --since-time")
    if len(args.paths) != (1 if args.coordinators or compares_moments else 2):
        raise UsageError("expected two PATHs, or one PATH with --coordinators, --since or --since-time")
    if args.coordinators and (args.coordinator or args.kafka):
        raise UsageError("--coordinators compares 3.9.2 with 4.3.1: remove --coordinator and --kafka")
    stop = answers.find_stop(args)
    # With --past-damage, no fork is looked for, because the records in a gap are missing, too.
    compares_replicas = len(args.paths) == 2 and not args.past_damage

    def compare(first: Topic, *others: Topic) -> Replicas:
        if compares_replicas:
            return first.diff(*others, **stop)
        if args.coordinators:
            a, b = (replace(first, coordinator=name, kafka=None).load(**stop) for name in ("classic", "new"))
        elif compares_moments:
            a, b = (first.load(**each) for each in ({"until": args.since, "until_time": args.since_time}, stop))
            return replicas.compare_moments(first.open(Stop(args.until, args.until_time)), a, b)
        else:
            a, b = (side.load(**stop) for side in (first, *others))
        return Replicas(a, b, diff(a, b), of="")

    def to_json(topic: Topic, result: Replicas) -> dict[str, Any]:
        a, b = (side.topic_partitions.to_json() for side in (result.a, result.b))
        topics = {"topic_partitions": b} if a == b else {"topic_partitions": b, "topic_partitions_a": a}
        return {**result.to_json(), **topics, **rules_to_json(result.a.kafka_rules)}

    def show(_args: Options, _topic: Topic, result: Replicas) -> None:
        print_comparison(result)
        answers.print_cut(
            args.until, args.until_time, {number: each.next_offset for number, each in result.b.partitions.items()}
        )

    return answers.answer_each(args, compare, show, to_json, subjects=[tuple(answers.open_topics(args))])


def describe_replicas(topics: Sequence[Topic]) -> str:
    """The text of `diff` about two paths; "" if they have no partition in common, or different logs of one."""
    if len(topics) != 2:
        return ""
    result = topics[0].diff(topics[1])
    is_foreign = any(truncation.are_strangers for truncation in result.truncations.values())
    if is_foreign or not result.a.partitions.keys() & result.b.partitions.keys():
        return ""
    text = StringIO()
    with redirect_stdout(text):
        print_comparison(result)
    return text.getvalue()


def print_comparison(result: Replicas) -> None:
    sides = {"a": result.a, "b": result.b}
    for name, side in sides.items():
        ends = list_names(answers.name_ends({number: each.next_offset for number, each in side.partitions.items()}))
        moment = f", the earlier moment, before offset {ends}" if name == "a" and result.of == "moments" else ""
        print_text(f"{name}: {side.path}{moment}, {side.coordinator} coordinator of Kafka {side.kafka}")
    changes = [each for number, found in result.changes.items() if number not in result.forks for each in found]
    for partition in result.forks:
        damages = {name: side.partitions[partition].damage for name, side in sides.items()}
        hiding = {name: damage for name, damage in damages.items() if damage and damage.readable_batches_after != 0}
        # Batches behind damage are not compared, so the files do not say which replica is the newer one.
        for name, damage in hiding.items():
            scope = "It is compared only up to there, and what follows may be newer than the other replica."
            answers.print_damage(f"{answers.name_partition(partition)}: {name}", damage, scope)
        if not hiding:
            _print_fork(partition, result)
            changes += result.changes.get(partition, [])
    if result.topic_ids is not None and result.is_created_again:
        print_text(
            "The topic was deleted and created again: its id is {} in a and {} in b. So these are two logs and no "
            "replicas: none of them is newer, and no broker follows the other.".format(*result.topic_ids)
        )
    elif result.of == "replicas":
        _print_other_partitions(result)
    if not any(result.differences.values()):
        print_text("No group, no offset and no pending commit differs.")
    for table in ("offsets", "pending", "groups"):
        _print_differences(table, [change for change in changes if change.table == table], result)
    lines = {name: [*describe_topic(side.topic_partitions, side.coordinator)] for name, side in sides.items()}
    if any(change.healing is Healing.KEPT for change in changes):
        print_text(
            "What only one replica still has can have been deleted. Then the cleaner of the other one had removed the "
            "tombstone (delete.retention.ms) before this one fetched it. What was deleted is back when this one leads."
        )
    for line in dict.fromkeys(chain(*lines.values())):
        names = [name for name in lines if line in lines[name]]
        print_text(line if len(names) == 2 else f"{names[0]}: {line}")
    # Of two moments of one log, the later one has all gaps.
    for groups in {side.path: side for side in sides.values()}.values():
        answers.print_gaps({number: loaded.gaps for number, loaded in groups.partitions.items()})


def _print_differences(table: str, changes: list[Change], result: Replicas) -> None:
    change_of = {(change.group, change.key): change for change in changes}
    pairs = {key: [change.older, change.newer] for key, change in change_of.items() if change.healing is Healing.SAME}
    for group_id, found in result.differences[table].items():
        pairs |= {(group_id, key): pair for key, pair in (found if isinstance(found, dict) else {"": found}).items()}
    rows = []
    for (group_id, key), pair in pairs.items():
        change = change_of.get((group_id, key))
        what = describe_difference(table, *pair)
        if change is not None and change.healing is Healing.SAME:
            what = f"{describe_answer(table, pair[0])} on both, {describe_answer(table, change.before)} before the fork"
        what += _describe_deletions(result, group_id, key, pair) if table == "offsets" else ""
        rows.append((group_id, key, what, _describe_healing(change, result) if change else ""))
    title = {"offsets": "committed", "pending": "pending", "groups": ""}[table]
    print_table(("group", title, "a → b", "after the fork" if result.forks else "records"), sorted(rows))


def _describe_deletions(result: Replicas, group: str, key: str, pair: Sequence[Any]) -> str:
    """Name the tombstones of an offset, if the answers do not tell that it was deleted, or not how often."""
    sides = result.deletions.get(group, {}).get(key, {})
    if sum(map(len, sides.values())) == sum(pair["ab".index(side)] is None for side in sides) == 1:
        return ""
    place = " in between" if result.of == "moments" else " on {}"
    names = {side: ", ".join(name_record(*each) for each in found) for side, found in sides.items()}
    texts = [f"{place.format(side)} ({names[side]})" for side in names]
    return f"; deleted{' and'.join(texts)}" if texts else ""


def _print_other_partitions(result: Replicas) -> None:
    partitions = result.a.partitions.keys() ^ result.b.partitions.keys()
    for name, side in (("a", result.a), ("b", result.b)):
        if numbers := ["one without a number" if n is None else str(n) for n in side.partitions if n in partitions]:
            print_text(f"Only {name} has these partitions: {', '.join(numbers)}.")
    if not partitions and not result.forks:
        print_text("The replicas have no fork: apart from cleaning, they are the same as far as they were read.")


def _describe_healing(change: Change, result: Replicas) -> str:
    topic = _describe_topic(change, result)
    newer = change.newer_name
    older = _OTHER[newer]
    if change.healing is Healing.SAME:
        return f"the same on a and b{_describe_start(change, topic)}"
    if change.healing is Healing.BACK:
        records = _list_records(change.newer, " ({})")
        what = "has members" if change.table == "groups" else f"committed it again{records}"
        return f"back: {older} deleted it, and {newer} {what}"
    if change.healing is Healing.KEPT:
        side = newer if change.newer else older
        who = "one" if change.newer and change.older else f"only {side}"
        return f"{who} still has {_list_records(change.newer or change.older, '{}') or 'records of it'}"
    if change.is_healed:
        place = " deleted" if change.newer is None else _list_records(change.newer, " {}")
        what = f"new{place and ':'}" if change.healing is Healing.NEW else f"healed{place and ', now'}"
        return f"{what}{place} on {newer}{_describe_start(change, topic)}"
    if change.healing is Healing.FORKED:
        return f"lost: {newer} is at other records{_list_records(change.newer, ' ({})')}{topic}"
    if change.healing is Healing.BEHIND:
        return f"lost: {newer} is behind{_list_records(change.newer, ' ({})')}{topic}"
    if change.older is not None:
        verb = "changed" if change.table == "groups" and change.newer else "has"
        return f"lost: only {older} {verb} it{_list_records(change.older, ' ({})')}"
    return f"lost: only {older} {'ended the transaction' if change.table == 'pending' else 'deleted it'}"


def _describe_start(change: Change, topic: str) -> str:
    if change.table != "offsets" or change.healing is Healing.NEW:
        return ""
    if not change.before:
        return ", which had no offset at the fork: after a restart, a consumer began where auto.offset.reset says"
    start = change.before["offset"]
    count = change.older["offset"] - start if change.older else 0
    twice = f": if its consumer restarted, it read {count} twice" if count > 0 else ""
    return f", {start} at the fork{topic or twice}"


def _describe_topic(change: Change, result: Replicas) -> str:
    """Say if the same offset stands for another record on the newer replica, or can do so."""
    if change.table != "offsets" or not change.older or not change.newer:
        return ""
    if fork := result.topic_forks.get(change.key):
        epochs = f"leader epoch {fork.epoch} on {fork.side}, and at most {fork.other} on {_OTHER[fork.side]}"
        return f"; the topic forks, too, at record {fork.record} or before: it has {epochs}"
    if -1 in (change.older["leader_epoch"], change.newer["leader_epoch"]):
        return "; without leader epochs, nothing says whether the topic forks, too"
    is_new = change.older["leader_epoch"] < change.newer["leader_epoch"]
    return "; the topic has a new leader, too" if is_new else ""


def _list_records(value: Any, form: str) -> str:
    commits = value if isinstance(value, list) else [value]
    offsets = [str(commit["record_offset"]) for commit in commits if "record_offset" in commit]
    return form.format(f"record {', '.join(offsets)}") if offsets else ""


def _print_fork(partition: int | None, result: Replicas) -> None:
    fork = result.forks[partition]
    truncation = result.truncations[partition]
    branches = {"a": fork.a, "b": fork.b}
    longer = [name for name, branch in branches.items() if branch.only] or ["b"]
    place = f"the replicas fork at offset {fork.offset}. Up to there, their records agree"
    if len(longer) == 1 and branches[_OTHER[longer[0]]].end_offset == fork.offset:
        place = f"{_OTHER[longer[0]]} ends at offset {fork.offset}, and {longer[0]} continues"
    elif truncation.are_strangers:
        place = "no record agrees, so a and b are probably logs of two partitions and no replicas of one"
    print_text(f"{answers.name_partition(partition)}: {place}.")
    for name in longer:
        branch = branches[name]
        epoch = "" if branch.leader_epoch in (None, -1) else f", leader epoch {branch.leader_epoch}"
        records = f"{count_of(branch.only, 'record')} from there on: offsets {branch.first} to {branch.last}{epoch}"
        times = "" if branch.times is None else f", from {' to '.join(map(describe_time, branch.times))}"
        in_transactions = f"; {branch.transactional} of them in transactions" if branch.transactional else ""
        print_text(f"  Only {name} has {records}{times}{in_transactions}.")
    newer = truncation.newer
    if truncation.are_strangers:
        print_text("  If both are replicas, copy both folders first: one of them loses all of its records.")
        return
    said = "The leader epochs of this partition do not say which replica was elected last."
    ends = {_OTHER[newer]: truncation.offset, newer: truncation.reverse}
    if truncation.is_elected:
        silence = "" if branches[newer].only else " It has written nothing since its election."
        said = f"{newer} is the newer replica: its last leader epoch is {branches[newer].epochs[-1][0]}.{silence}"
        del ends[newer]
    elif truncation.other_partitions:
        said += f" In partition {list_names(truncation.other_partitions)} it was {newer}, so probably here, too."
    print_text(f"  {said}")
    for name, end in ends.items():
        leader = _OTHER[name]
        print_text(f"  When {name} follows {leader}, it {_describe_end(branches[name], branches[leader], end)}.")


def _describe_end(follower: Branch, leader: Branch, end: int | None) -> str:
    if end is None:
        return "truncates to its high watermark, because no leader epoch tells where"
    hidden = f". Before offset {end}, it stays different: leader epochs do not show this fork"
    different = hidden if follower.first is not None and follower.first < end else ""
    if end >= follower.end_offset:
        rest = f", and fetches from offset {end} on" if end < leader.end_offset else ""
        return f"keeps its records{rest}{different}"
    lost = f", and loses {count_of(follower.only, 'record')}" if follower.only else ""
    return f"truncates its log to offset {end}{lost}{different}"


_OTHER = {"a": "b", "b": "a"}
