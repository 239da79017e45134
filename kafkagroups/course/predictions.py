"""Predictions: the answer is folded away until the reader predicts it, and frequent wrong ones are explained.

A saved notebook shows outputs to readers who have not thought about the question yet, so `reveal` and `fold` write the
answer into a `<details>` element, which opens without a kernel.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from IPython.display import display
from IPython.utils.capture import capture_output

_SUMMARY = "Predict first. Then open this line to see the answer."
_TEXT_WITHOUT_PREDICTION = "The answer is folded away. Write your prediction into the cell above, and run both cells."

_is_inside_fold = ContextVar("is_inside_fold", default=False)


def reveal(name: str, prediction: Any, answer: Any) -> None:
    """Show the answer to a prediction (`...` for none), and what is wrong with a frequent wrong one (`MISCONCEPTIONS`).

    Inside `fold`, it is only printed: the reader opens one line.
    """
    if prediction is ... and _is_inside_fold.get():
        print(f"The answer is {answer!r}.")
        return
    if prediction is ...:
        _show_folded(f"<p>The answer is <code>{_escape(answer)}</code>.</p>")
        return
    print(_compare(name, prediction, answer))


@contextmanager
def fold(name: str, prediction: Any, answer: Any = None) -> Iterator[None]:
    """Fold away everything that the `with` block prints and displays, until there is a prediction.

    Use it where the output of a program contains the answer. If the block raises an error, its output is shown.
    """
    if prediction is not ...:
        yield
        if answer is not None:
            print(_compare(name, prediction, answer))
        return
    captured = None
    outside = _is_inside_fold.set(True)
    try:
        with capture_output() as captured:
            yield
    except BaseException:
        if captured is not None:
            captured.show()  # type: ignore[no-untyped-call]
        raise
    finally:
        _is_inside_fold.reset(outside)
    parts = [f"<pre>{_escape_text(captured.stdout)}</pre>"] if captured.stdout else []
    parts += [_read_html(output.data) for output in captured.outputs]
    _show_folded("".join(parts))


def _compare(name: str, prediction: Any, answer: Any) -> str:
    if prediction == answer:
        return f"✓ The answer is {answer!r}, as you predicted."
    line = f"You predicted {prediction!r}. The answer is {answer!r}."
    sentences = [sentence for wrong, sentence in MISCONCEPTIONS.get(name, {}).items() if wrong == prediction]
    return "\n".join([line, *sentences])


def _show_folded(content: str) -> None:
    folded = f"<details><summary>{_SUMMARY}</summary>{content}</details>"
    forms = {"text/html": folded, "text/plain": _TEXT_WITHOUT_PREDICTION}
    display(forms, raw=True)  # type: ignore[no-untyped-call]


def _read_html(data: Mapping[str, Any]) -> str:
    if "text/html" in data:
        return str(data["text/html"])
    return f"<pre>{_escape_text(str(data.get('text/plain', '')))}</pre>"


def _escape(value: Any) -> str:
    return _escape_text(repr(value))


def _escape_text(text: str) -> str:
    return html.escape(text, quote=False)


# They are not in the lessons, because a list of wrong predictions tells a reader too much about the answer.
MISCONCEPTIONS: dict[str, dict[Any, str]] = {
    # Lesson 00
    "different_partitions": {
        5: "Kafka does not look for a free partition. Two groups can be in the same one.",
        1: "Each group is in one partition, but different groups are mostly in different ones.",
        50: "50 is the number of partitions. Five groups cannot be in more than five of them.",
    },
    # Lesson 01
    "version_of_stock_audit": {
        4: "Version 4 has no field for the time at which the offset expires.",
        3: "Version 3 has no field for the time at which the offset expires, and Kafka 4.3 does not write it.",
    },
    # Lesson 02
    "hash_of_BB": {
        132: "You added the two codes. The first code is multiplied by 31 before the second one is added.",
        2113: "Different names can have the same hash.",
    },
    "moved": {
        0: "The remainder of a division by 60 is another number than the remainder of a division by 50.",
        8: "For some hashes, both remainders are equal.",
    },
    # Lesson 03
    "second_batch": {
        89: "The length does not count the 12 bytes of offset and length before it.",
        93: "The eight bytes of the offset are also before the counted bytes.",
        97: "The four bytes of the length itself are also before the counted bytes.",
    },
    # Lesson 04
    "while_in_flight": {
        5: "Only this broker has the record. A fetch reads the snapshot (4.x) or the cache (3.9), which lack it.",
        0: "0 is a valid offset. Without an offset, the answer is -1.",
    },
    "this_and_next": {
        (5, 5): "The record is in the log, and the next broker loads the whole log.",
        (6, 6): "The replicas have not confirmed 6, so this broker must not show it.",
        (6, 5): "It is the other way round: the log has 6, but this broker must not show it yet.",
    },
    "in_the_end": {
        6: "The confirmation of 6 came later, but its record is before the record of 7.",
        5: "7 was confirmed, so it is shown, whatever happens to 6.",
    },
    # Lesson 05
    "read_again": {
        0: "The broker removed the groups of partition 9 when it lost the partition. So it must load them again.",
        134: "The broker loads only the partition that it leads again.",
        179: "The first load is not part of the question. It says how many more records are read.",
        450: "The broker loads the partition once. A fetch reads only the map in memory.",
        495: "The broker loads the partition once. A fetch reads only the map in memory.",
    },
    "for_unknown_group": {
        (-1, "GROUP_ID_NOT_FOUND"): "An unknown group is not an error: every new group is unknown when it starts.",
        (0, "NONE"): "0 is a valid offset: the first record. The answer must differ from it.",
    },
    "about_orders_0": {
        "UNSTABLE_OFFSET_COMMIT": "The answer if the client asks by name. `all` lists only committed partitions.",
        "-1": "-1 is only an answer if the client asks by name, without requireStable.",
    },
    # Lesson 06
    "members_in_the_log": {
        1: "The record with the members also has the assignments, and the leader has not sent them yet.",
        2: "There is one client. And its record also has its assignment, which does not exist yet.",
    },
    "commit_during_join": {
        "REBALANCE_IN_PROGRESS": "That is the answer in CompletingRebalance. The join phase is not over yet.",
        "ILLEGAL_GENERATION": "The generation of billing-1 is still the newest one.",
        "UNKNOWN_MEMBER_ID": "billing-1 is still a member. Only its heartbeats say that it must join again.",
    },
    "leader_is_removed_at": {
        45: "The session begins at the last sign of life, not at the start.",
        49: "The commit at 6 s was accepted, too. It is a later sign of life.",
        48: "After the join phase, two accepted commits followed. Each of them is a sign of life.",
        305: "That is the end of the join phase. The session of billing-1 ends earlier.",
    },
    # Lesson 07
    "late_commit": {
        "ILLEGAL_GENERATION": "The member is checked before its generation, and this member was removed.",
        "NONE": "The partition may have a new owner. A late commit could overwrite its newer offset.",
        "REBALANCE_IN_PROGRESS": "That is an answer to a member, and this member was removed.",
    },
    "heard_by_the_old_process": {
        "UNKNOWN_MEMBER_ID": "The coordinator knows its instance id. It belongs to another member id now.",
        "NONE": "Then two processes would read the same partitions.",
    },
    # Lesson 08
    "payments_1": {
        31: "Record 30 waits for its marker, which comes only at record 32.",
        21: "The second transaction was aborted, so its offsets never count.",
        25: "That is the offset of payments-0.",
        41: "Record 33 comes later, and its transaction has no marker.",
    },
    "epoch_of_the_fourth": {
        0: "That was so up to Kafka 3.9. Since 4.0, each end of a transaction raises the epoch.",
        1: "The end of the first transaction raised the epoch to 1. Two more transactions have ended since then.",
        4: "The fourth transaction has not ended. Only three ends have raised the epoch.",
    },
    "after_the_load": {
        "neither": "In one of them, a load applies the tombstone to the committed offset only: the marker finds 41.",
        "both": "In 4.x, a tombstone deletes what is committed and what is pending.",
        "4.3.1": "In 4.x, a tombstone deletes what is committed and what is pending.",
    },
    # Lesson 09
    "mailer_is_deleted_on": {
        7: "The group had members until day 4. The retention begins when the group becomes Empty.",
        4: "The group becomes Empty on day 4. Then the retention begins.",
        10: "The expiry day is the day on which the group became Empty plus 7.",
    },
    # Lesson 10
    "records_left": {
        7: "Each key keeps one record of the closed segments. The record of the active segment remains, too.",
        6: "The group is a key, too, and the record of the active segment remains.",
        499: "All segments except the active one are cleaned.",
    },
    "pass_ends_at": {
        216: "A pass takes whole segments. It ends where the segment with offset 216 begins.",
        474: "The active segment begins at 474, but the open transaction stops the pass before.",
        500: "The log ends at 500, but the open transaction stops the pass before.",
        276: "The segment that begins at 207 contains offset 216, so the pass does not touch it.",
    },
    # Lesson 11
    "members_after": {
        3: "The third member had joined, but its rebalance had no end. So no record names it.",
        0: "The record of the last finished rebalance names its members.",
        1: "The last finished rebalance was that of generation 6, with two members.",
    },
    "classic_answer": {
        "the offset": "The load failed while it was reading. The classic coordinator keeps nothing of the partition.",
        "an error": "That is what the new coordinator does. The classic one gives no error.",
    },
    # Lesson 12
    "offsets_of_mailer": {
        0: "Program 2 finds no offset that it could remove. So its tombstones have no effect.",
        6: "The lines of program 2 are tombstones. It has no offset to add.",
    },
    "times_faster": {
        50: "50 cores do not get equal parts. One core reads the whole largest partition.",
        14: "14 % of the records are in the largest partition. Divide the number of all records by its records.",
    },
    # Lesson 13
    "idle_seconds": {
        20: "That is the classic protocol. With the new one, loyalty-1 does not join again: it only gives one back.",
        30: "Only what loyalty-2 must give back waits for its poll. loyalty-1 goes on reading.",
    },
    "partitions_of_loyalty_2": {
        1: "That is its target. But loyalty-1 still has this partition, and must revoke it first.",
        3: "The target divides the three partitions between both members.",
    },
    "answer_for_g6": {
        "the offset": "g6 is in the same partition as s2. One refused record stops the load of the whole partition.",
        "nothing committed": "That is what a classic coordinator answers. The new one answers with an error.",
    },
}
