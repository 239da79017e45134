"""A finding: something that is wrong with a log, where it is, and what to do about it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

TOPIC_KINDS = ("group_family", "look_alike_groups", "partition_count_changed")
"""The kinds of findings that can be about the whole topic. Their partition is then None."""
GROUPS_TOOL = ("kafka-consumer-groups.sh", "--bootstrap-server", "HOST:PORT")
TRANSACTIONS_TOOL = ("kafka-transactions.sh", "--bootstrap-server", "HOST:PORT")


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a log.

    Attributes
    ----------
    partition
        The partition of the offsets topic; None if the log's folder has no partition number.
    offset
        The Kafka offset in that partition where the problem begins; None if it has no place.
    group
        The id of the group that the finding is about; None if it is about the whole partition, or several groups.
    topic_partition
        The topic partition of the committed offset that it is about, for example "orders-0", if any.
    kind
        A word for programs, for example "hanging_transaction".
    what
        One sentence that says what is wrong.
    remedy
        One sentence that says what to do, with the text of the command, if it names one.
    command
        The words of the command that the remedy names. A word in capital letters, for example HOST:PORT, stands for
        what the reader knows.
    """

    partition: int | None
    offset: int | None
    group: str | None
    topic_partition: str | None
    kind: str
    what: str
    remedy: str
    command: list[str] | None = None

    @property
    def advice(self) -> str:
        """The remedy without a command at its end, so that the command can have a line of its own."""
        return self.remedy if self.command is None else self.remedy.removesuffix(f" {join_words(self.command)}")

    @property
    def command_line(self) -> str:
        """The text of the command at the end of the remedy, if there is one, and otherwise ""."""
        is_last = self.command is not None and self.advice != self.remedy
        return join_words(self.command or ()) if is_last else ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by partition and offset. Findings without a partition or an offset are first."""

    def sort_key(finding: Finding) -> tuple[int, int, str, str, str]:
        partition = -1 if finding.partition is None else finding.partition
        offset = -1 if finding.offset is None else finding.offset
        return partition, offset, finding.kind, finding.group or "", finding.topic_partition or ""

    return sorted(findings, key=sort_key)


def join_words(words: Iterable[str]) -> str:
    """One line for a shell, in which the value of an option such as --group=G is quoted."""
    return " ".join(map(_quote_word, words))


def _quote_word(word: str) -> str:
    name, is_option, value = word.partition("=")
    return f"{name}={quote(value)}" if is_option and name.startswith("--") else shlex.quote(word)


def quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
