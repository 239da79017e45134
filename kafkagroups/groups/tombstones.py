"""What a tombstone deletes: what both coordinators have after small logs with tombstones.

Each row of the tables is a log of one group. The tests in `tests/groups/test_tombstones.py` and
`tests/coordinator/test_running_tombstones.py` play every row.

A deletion has three effects, and they differ:

- In a running coordinator: the classic coordinator changes its memory, and then appends the tombstone. It deletes a
pending commit from its memory, but its load does not. The new coordinator changes its memory only by replaying its
records, so it has the same as after a load (recorded in 4.3.1-deletes).
- In a load: the coordinator replays the tombstone.
- In the log: the cleaner removes the earlier records with the same key, and later the tombstone itself. The tombstone
of an offset and the tombstone of its group have different keys.

In Kafka 4.x a tombstone of a group removes the group, but not its offsets. The offsets are only hidden: a fetch does
not return them. A later record of the group creates the group again, and its old offsets are visible again. For this
reason a broker that deletes a group also writes a tombstone for each of its offsets.

A running coordinator does not read the topic. A tombstone that another program wrote into the topic changes its
answers only after the next load.
Source: GroupMetadataManager.scala (3.9), "doLoadGroupsAndOffsets", "cleanupGroupMetadata"; GroupMetadata.scala (3.9),
"removeOffsets"; OffsetMetadataManager.java and GroupMetadataManager.java (4.3.1), "replay"; Cleaner.java (4.3.1).
"""

from __future__ import annotations

from typing import NamedTuple

WORDS = {
    "C": "a commit, without a transaction",
    "X": "a commit in a transaction. The commit is pending until the marker",
    "Y": "like X, but for another partition",
    "M": "the marker that commits the transaction",
    "A": "the marker that aborts the transaction",
    "T": "the tombstone of the offset",
    "U": "the tombstone of the offset, in a transactional batch. No broker writes it, but a copying tool can",
    "U2, M2, A2": "the tombstone and the markers of another producer",
    "E": "the record of the group, without members",
    "D": "the tombstone of the group",
    "W": "the tombstone of the group, in a transactional batch. No broker writes it, but a copying tool can",
    "K": "the tombstones of the offset and of the group in one batch. DeleteGroups writes it",
}
"""The words of the logs, and what each batch contains."""


class Remains(NamedTuple):
    """What a coordinator has of the group. `committed`, `pending` and `hidden` name commits by their words in the log.

    `has_group` says whether the coordinator has the group. `hidden` are committed offsets without a group.
    `fails` says whether the load ends with the error "Unexpected unload of active group". The classic coordinator
    raises it after all groups are in its cache, so it answers requests nevertheless.
    """

    has_group: bool
    committed: str = ""
    pending: str = ""
    hidden: str = ""
    fails: bool = False


NOTHING = Remains(has_group=False)
GROUP_ONLY = Remains(has_group=True)


class TombstoneRow(NamedTuple):
    """A log, and what remains of the group.

    `running` is the state of a running classic coordinator that wrote this log. None: no classic coordinator writes it.
    `classic` and `new` are the states after a load of the log. `classic_cleaned` and `new_cleaned` are the states after
    a load of the cleaned log, from which the cleaner has removed the tombstones. None: the cleaner does not remove
    them, because the transaction is open. `recorded` names crafted logs (`tests/captured`) with the same records, which
    real brokers loaded.
    """

    log: str
    event: str
    running: Remains | None
    classic: Remains
    new: Remains
    classic_cleaned: Remains | None
    new_cleaned: Remains | None
    recorded: tuple[str, ...] = ()


class TombstoneTable(NamedTuple):
    """The rows about one kind of tombstone."""

    title: str
    summary: str
    rows: tuple[TombstoneRow, ...]


_C = Remains(has_group=True, committed="C")
_X = Remains(has_group=True, committed="X")
_X_PENDING = Remains(has_group=True, pending="X")
_C_HIDDEN = Remains(has_group=False, hidden="C")

_OF_AN_OFFSET = TombstoneTable(
    "The tombstone of an offset",
    "OffsetDelete, the expiration of offsets and the deletion of a topic write it. In the table, the running "
    "coordinator received OffsetDelete. Without a group record, an offset or a pending commit, a classic load finds no "
    "group. "
    "The new coordinator has an Empty group, because a commit creates the group, and only a tombstone of the group "
    "removes it.",
    (
        TombstoneRow("C T", "no pending commit", NOTHING, NOTHING, GROUP_ONLY, NOTHING, NOTHING, ("d-t-all",)),
        TombstoneRow(
            "C X T", "the transaction is open", GROUP_ONLY, _X_PENDING, GROUP_ONLY, None, None, ("t4-MCXT", "t4-CAXT")
        ),
        TombstoneRow(
            "C X T M", "the transaction commits later", GROUP_ONLY, _X, GROUP_ONLY, NOTHING, NOTHING, ("t4-CXTM",)
        ),
        TombstoneRow("C X T A", "the transaction aborts later", GROUP_ONLY, NOTHING, GROUP_ONLY, NOTHING, NOTHING),
        TombstoneRow("C T X M", "the transaction commits after the tombstone", _X, _X, _X, _X, _X, ("t4-CTXM",)),
        TombstoneRow(
            "X T", "there is only a pending commit", None, _X_PENDING, GROUP_ONLY, None, None, ("t-pend-tomb",)
        ),
    ),
)
_OF_AN_OFFSET_IN_A_TRANSACTION = TombstoneTable(
    "The tombstone of an offset in a transactional batch",
    "Both coordinators apply it immediately, and the marker changes nothing. The classic coordinator deletes only the "
    "pending commit of the same producer. The new coordinator deletes the committed offset and the pending "
    "commits of all producers. For the cleaner, the tombstone of an aborted transaction deletes nothing.",
    (
        TombstoneRow("C U", "the transaction is open", None, _C, GROUP_ONLY, None, None),
        TombstoneRow(
            "C U M", "the transaction commits", None, _C, GROUP_ONLY, NOTHING, NOTHING, ("t-txn-tomb-committed",)
        ),
        TombstoneRow("C U A", "the transaction aborts", None, _C, GROUP_ONLY, _C, _C, ("t-txn-tomb-aborted",)),
        TombstoneRow(
            "X U M",
            "the same producer has a pending commit",
            None,
            NOTHING,
            GROUP_ONLY,
            NOTHING,
            NOTHING,
            ("t-txn-x-tomb",),
        ),
        TombstoneRow("C X U M", "the same producer has a pending commit", None, _C, GROUP_ONLY, NOTHING, NOTHING),
        TombstoneRow("C X U2 M M2", "another producer has a pending commit", None, _X, GROUP_ONLY, NOTHING, NOTHING),
        TombstoneRow("C X U2 M A2", "another producer has a pending commit", None, _X, GROUP_ONLY, _X, _X),
    ),
)
_OF_A_GROUP = TombstoneTable(
    "The tombstone of a group",
    "In the classic coordinator it deletes the group's members and generation, but no offset. A group with offsets "
    "becomes a simple group. In the new coordinator it removes the group, whatever its type is, and hides its offsets. "
    "In both, pending commits stay pending, and a tombstone in a transactional batch takes effect immediately.",
    (
        TombstoneRow("E D", "the group has no offsets", NOTHING, NOTHING, NOTHING, NOTHING, NOTHING),
        TombstoneRow("C D", "no pending commit", None, _C, _C_HIDDEN, _C, _C, ("d-c-gt",)),
        TombstoneRow("C D E", "the group gets a record again", None, _C, _C, _C, _C, ("d-c-gt-g",)),
        TombstoneRow(
            "Y M D C",
            "the group gets a commit for another partition",
            None,
            Remains(has_group=True, committed="Y C"),
            Remains(has_group=True, committed="Y C"),
            Remains(has_group=True, committed="Y C"),
            Remains(has_group=True, committed="Y C"),
            ("g4-XMDC",),
        ),
        TombstoneRow(
            "X D",
            "there is only a pending commit",
            None,
            _X_PENDING._replace(fails=True),
            Remains(has_group=False, pending="X"),
            None,
            None,
            ("t-x-gt-pend",),
        ),
        TombstoneRow(
            "C Y D",
            "the transaction is open",
            None,
            Remains(has_group=True, committed="C", pending="Y"),
            Remains(has_group=False, hidden="C", pending="Y"),
            None,
            None,
            ("g4-CMXD", "g4-MCXD"),
        ),
        TombstoneRow(
            "C Y D M",
            "the transaction commits later",
            None,
            Remains(has_group=True, committed="C Y"),
            Remains(has_group=False, hidden="C Y"),
            Remains(has_group=True, committed="C Y"),
            Remains(has_group=True, committed="C Y"),
            ("g4-CXDM",),
        ),
        TombstoneRow(
            "E W A",
            "the tombstone is in a transaction that aborts",
            None,
            NOTHING,
            NOTHING,
            GROUP_ONLY,
            GROUP_ONLY,
            ("t-gt-in-txn-abort",),
        ),
    ),
)
_BOTH = TombstoneTable(
    "The deletion of a whole group",
    "DeleteGroups writes both kinds of tombstones in one batch. The classic coordinator writes the tombstone of the "
    "group only above generation 0, and no tombstone for an offset that is only pending.",
    (
        TombstoneRow("C E K", "no pending commit", NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, ("d-full-delete",)),
        TombstoneRow(
            "C E X K",
            "the transaction is open",
            NOTHING,
            _X_PENDING._replace(fails=True),
            NOTHING,
            None,
            None,
        ),
        TombstoneRow("C E X K M", "the transaction commits later", NOTHING, _X, NOTHING, NOTHING, NOTHING),
        TombstoneRow("C E X K A", "the transaction aborts later", NOTHING, NOTHING, NOTHING, NOTHING, NOTHING),
    ),
)
TOMBSTONE_TABLES = (_OF_AN_OFFSET, _OF_AN_OFFSET_IN_A_TRANSACTION, _OF_A_GROUP, _BOTH)
"""Every row, by the kind of tombstone."""
