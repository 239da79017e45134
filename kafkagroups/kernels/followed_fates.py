"""The fate of each record of a log that the compiled engine has folded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from kafkagroups.groups.answers import Answer, Answers
from kafkagroups.kernels import layout
from kafkagroups.kernels.arrays import Array
from kafkagroups.kernels.follower import FATE_NUMBERS, RecordFollower
from kafkagroups.kernels.shards import FindCommits
from kafkagroups.kernels.state import FoldState


@dataclass
class FollowedFates:
    """The fates of the records of one log.

    The numbers of records begin with 0 at the start of the log. `fates` and `by` have an element for each record: the
    number of its fate (layout.py), and the offset of the record that decided the fate (NO_RECORD: none). A committed
    offset and a group record without a successor have no final fate yet: `settle` decides it. `committed` and `pending`
    contain the numbers of the records of committed offsets and of pending commits, and `committed_groups` and
    `pending_groups` the index of each one's group in `group_ids`.
    """

    partition: int | None
    fates: Array
    by: Array
    group_ids: list[str]
    committed: Array
    committed_groups: Array
    pending: Array
    pending_groups: Array
    follower: RecordFollower
    find_commits: FindCommits

    @classmethod
    def finish(
        cls, partition: int | None, state: FoldState, follower: RecordFollower, find_commits: FindCommits
    ) -> FollowedFates:
        """Return the fates of a log's records, after the compiled engine has folded the log."""
        pending_nodes = state.list_pending_nodes()
        group_ids, group_of_name = state.list_group_ids()
        entries = state.entries[: state.counts[layout.ENTRIES]]
        names = entries[:, layout.NAME_AND_PARTITION] >> layout.PARTITION_BITS
        committed = np.flatnonzero(entries[:, layout.RECORD_OFFSET] >= 0)
        record_count = int(state.counts[layout.RECORDS])
        return cls(
            partition,
            state.fates[:record_count],
            state.by[:record_count],
            group_ids,
            state.key_records[committed, layout.RECORD_NUMBER],
            group_of_name[names[committed]],
            state.node_records[pending_nodes, layout.RECORD_NUMBER],
            group_of_name[names[state.nodes[pending_nodes, layout.ENTRY]]],
            follower,
            find_commits,
        )

    def settle(self, answers: Answers) -> tuple[Array, Array]:
        """Decide the remaining fates. Return for each record the index of its fate in `Fate`, and `by`."""
        found = [answers.find(group, self.partition) for group in self.group_ids]
        self._settle_group_records(answers)
        self._settle_committed(found)
        pending_fates = np.array([FATE_NUMBERS[answer.pending] for answer in found], np.uint8)
        self.fates[self.pending] = pending_fates[self.pending_groups]
        self.fates[self.fates == layout.UNDECIDED] = layout.IGNORED
        return self.fates - 1, self.by

    def _settle_group_records(self, answers: Answers) -> None:
        for group, newest in self.follower.newest.items():
            if newest.records:
                fate = FATE_NUMBERS[answers.find(group, self.partition).records]
                for record in newest.records.values():
                    self.fates[record.number] = fate

    def _settle_committed(self, found: Sequence[Answer]) -> None:
        """Decide the fates of the committed offsets. `found` has the answer of each group in `group_ids`."""
        fate_of_group = np.array([FATE_NUMBERS[answer.committed] for answer in found], np.uint8)
        fates = fate_of_group[self.committed_groups]
        self.fates[self.committed] = fates
        # The marker that committed the transaction does not decide the fate of an offset that is not answered.
        is_read = np.array([answer.has_read for answer in found], bool)[self.committed_groups]
        self.by[self.committed[is_read & (fates == layout.IGNORED)]] = layout.NO_RECORD
        is_hidden = fates == layout.HIDDEN
        hidden_ids = [self.group_ids[group] for group in np.unique(self.committed_groups[is_hidden]).tolist()]
        tombstones = self._find_tombstones(hidden_ids)
        tombstone_of_group = np.array([tombstones.get(group, layout.NO_RECORD) for group in self.group_ids], np.int64)
        self.by[self.committed[is_hidden]] = tombstone_of_group[self.committed_groups[is_hidden]]

    def _find_tombstones(self, group_ids: Collection[str]) -> dict[str, int]:
        """Return the offset of the tombstone that deleted each of these groups, by group id.

        A tombstone deletes a group only if the group exists: a commit or a group record has created it since the
        tombstone before.
        """
        if not group_ids:
            return {}
        creating_offsets: dict[str, list[int]] = {group: [] for group in group_ids}
        for offset, group in self.find_commits(group_ids):
            creating_offsets[group].append(offset)
        tombstones = {}
        for group in group_ids:
            changes = self.follower.group_changes.get(group, [])
            created = [(offset, True) for offset in creating_offsets[group]]
            is_known = False
            for offset, is_created in sorted([*changes, *created]):
                if is_known and not is_created:
                    tombstones[group] = offset
                is_known = is_created
        return tombstones
