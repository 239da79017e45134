"""The exercises of lesson 09: replay, transactions, and what the cleaner takes away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.log_lines import Line, Lines
from kafkagroups.groups.offsets import OffsetAndMetadata, Offsets, TopicPartition

Answer = dict[Any, Any]


def _replay(lines: Lines, transactions: bool = True) -> Answer:
    offsets = Offsets()
    for at, about, group, name, value, producer in lines:
        if about in ("commit", "abort") and producer is not None:
            offsets.end_transaction(producer, commits=about == "commit", by=at, whole_batches=False)
        if about != "offset" or group is None or name is None:
            continue
        topic, _, number = name.rpartition("-")
        partition = TopicPartition(topic, int(number))
        if value is None:
            offsets.remove(group, partition, at)
            continue
        offset = OffsetAndMetadata(value, "", 0, -1, None, None, at, at)
        if producer is None or not transactions:
            offsets.put(group, partition, offset)
        else:
            offsets.put_pending(producer, group, partition, offset)
    return {(group, str(name)): there[name].offset for group, there in offsets.committed.items() for name in there}


def _fold(put: Callable[[Answer, Line], object]) -> Callable[[Lines], Answer]:
    """A replay without transactions: what `put` does with each offset."""

    def replay(lines: Lines) -> Answer:
        offsets: Answer = {}
        for line in lines:
            if line.about == "offset":
                put(offsets, line)
        return offsets

    return replay


def _key(line: Line) -> tuple[str | None, str | None]:
    return line.group, line.partition


def _by(key: Callable[[Line], Any]) -> Callable[[Answer, Line], object]:
    def put(offsets: Answer, line: Line) -> None:
        offsets.pop(key(line), None)
        if line.value is not None:
            offsets[key(line)] = line.value

    return put


def _largest(offsets: Answer, line: Line) -> None:
    if line.value is None:
        offsets.pop(_key(line), None)
    else:
        offsets[_key(line)] = max(line.value, offsets.get(_key(line), line.value))


def _oldest(offsets: Answer, line: Line) -> None:
    if line.value is None:
        offsets.pop(_key(line), None)
    else:
        offsets.setdefault(_key(line), line.value)


def _kept(offsets: Answer, line: Line) -> None:
    if line.value is not None:
        offsets[_key(line)] = line.value


def _groups_too(lines: Lines) -> Answer:
    offsets: Answer = {}
    for line in lines:
        _by(_key)(offsets, line)
    return offsets


def _slipped(slip: str) -> Callable[[Lines], Answer]:
    """A replay of transactions that is right but for one thing."""

    def newer(at: int, there: tuple[int, int] | None) -> bool:
        return there is None or (there[0] < at if slip != "plain wins" else False) or slip == "marker decides"

    def replay(lines: Lines) -> Answer:
        offsets: Answer = {}
        pending: dict[Any, Answer] = {}
        for line in lines:
            if line.about == "offset":
                if line.value is None:
                    offsets.pop(_key(line), None)
                elif line.producer is None or slip == "at once":
                    offsets[_key(line)] = line.at, line.value
                else:
                    producer = None if slip == "one for all" else line.producer
                    pending.setdefault(producer, {})[_key(line)] = line.at, line.value
            elif line.about in ("commit", "abort"):
                ended = None if slip == "one for all" else line.producer
                waiting = pending.get(ended, {})
                if line.about == "commit" or slip == "abort counts":
                    for key, (at, value) in waiting.items():
                        if newer(at, offsets.get(key)):
                            offsets[key] = at, value
                if slip != "not forgotten" or line.about == "commit":
                    pending.pop(ended, None)
        return {key: value for key, (_, value) in offsets.items()}

    return replay


REPLAY = """\
def replay(lines):
    offsets = {}
    for line in lines:
        if line.about != "offset":
            continue
        key = line.group, line.partition
        if line.value is None:
            offsets.pop(key, None)                 # a tombstone; perhaps of something that is not there
        else:
            offsets[key] = line.value
    return offsets"""

REPLAY_TRANSACTIONS = """\
def replay_transactions(lines):
    offsets, pending = {}, {}                      # offsets: key → (at, value); pending: producer → the same
    for line in lines:
        key = line.group, line.partition
        if line.about == "offset":
            if line.value is None:
                offsets.pop(key, None)
            elif line.producer is None:
                offsets[key] = line.at, line.value
            else:
                pending.setdefault(line.producer, {})[key] = line.at, line.value
        elif line.about in ("commit", "abort"):
            waiting = pending.pop(line.producer, {})
            if line.about == "commit":
                for key, (at, value) in waiting.items():
                    if key not in offsets or offsets[key][0] < at:
                        offsets[key] = at, value
    return {key: value for key, (at, value) in offsets.items()}"""


def _o(at: int, value: int | None, producer: int | None = None, partition: str = "orders-0", group: str = "a") -> Line:
    return Line(at, "offset", group, partition, value, producer)


def _end(at: int, about: str, producer: int = 7) -> Line:
    return Line(at, about, producer=producer)


EXERCISES = (
    Exercise(
        "replay",
        lambda lines: _replay(lines, transactions=False),
        REPLAY,
        (
            "A dictionary by (line.group, line.partition): later lines overwrite earlier ones, all by themselves.",
            "offsets.pop(key, None) removes a key, and does not mind when it is not there.",
        ),
        cases=(
            (Lines([_o(0, 5), _o(1, 9)]),),
            (Lines([_o(0, 5), _o(1, 7, group="b")]),),
            (Lines([_o(0, 30), _o(1, 25)]),),
            (Lines([_o(0, 5), _o(1, 6, partition="orders-1"), _o(2, None)]),),
            (Lines([_o(0, None), Line(1, "group", "a", value=1), _o(2, 5)]),),
            (Lines([_o(0, 5), _o(1, None), _o(2, 3)]),),
        ),
        known_mistakes={
            "two groups may read the same partition: the key is (group, partition)": _fold(_by(lambda x: x.partition)),
            "the newest line is what counts, not the oldest": _fold(_oldest),
            "an offset may go back: the newest line counts, not the largest number": _fold(_largest),
            "a line without a value removes what is there": _fold(_kept),
            "after a tombstone nothing is there, not even a None": _fold(lambda x, y: x.update({_key(y): y.value})),
            "only lines about an offset are wanted": _groups_too,
        },
    ),
    Exercise(
        "replay_transactions",
        _replay,
        REPLAY_TRANSACTIONS,
        (
            "Keep a second dictionary of what waits, by producer. A marker takes out what its producer has there.",
            "To know which of two records is newer, keep line.at beside each value, in both dictionaries.",
            "At a commit, for each waiting (at, value): it counts if nothing is there, or something with a smaller at.",
        ),
        cases=(
            (Lines([_o(0, 10, 7), _end(1, "commit")]),),
            (Lines([_o(0, 10, 7), _end(1, "abort")]),),
            (Lines([_o(0, 5), _o(1, 10, 7)]),),
            (Lines([_o(0, 30, 7), _o(1, 25), _end(2, "commit")]),),
            (Lines([_o(0, 25), _o(1, 30, 7), _end(2, "commit")]),),
            (Lines([_o(0, 10, 7), _o(1, 20, 8, "orders-1"), _end(2, "commit", 8)]),),
            (Lines([_o(0, 10, 7), _end(1, "abort"), _o(2, 20, 7, "orders-1"), _end(3, "commit")]),),
            (Lines([_o(0, 10, 7), _o(1, 20, 7), _end(2, "commit"), _o(3, None)]),),
        ),
        known_mistakes={
            "an offset in a transaction waits for its marker": _slipped("at once"),
            "an abort takes back what waits": _slipped("abort counts"),
            "the place of the offset's own line decides which is newer, not the marker's": _slipped("marker decides"),
            "a transaction's offset that is newer than the plain one counts, when it is committed": _slipped(
                "plain wins"
            ),
            "a marker ends the transaction of its own producer, of no other": _slipped("one for all"),
            "what an abort took back must be gone: the next commit of that producer must not find it": _slipped(
                "not forgotten"
            ),
        },
    ),
    Exercise(
        "taken_away",
        29,
        "taken_away = 29",
        (
            "The cleaner keeps the newest line of each key, and asks nobody about transactions that were committed.",
            "The board believes in the line that stands *before* 30 and is taken over at 31.",
        ),
        known_mistakes={
            "that is the newest line of its key: it stays": 30,
            "that is the marker; without its data it has nothing to take over": 31,
            "that one is of payments-1, and the newest of it": 28,
            "it goes as well, but the board had long forgotten it: 29 came after it": 23,
        },
    ),
)
