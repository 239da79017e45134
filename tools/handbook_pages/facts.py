"""The tables of docs/facts/ as typed objects: one file, one struct whose fields are the keys of the file.

No code of the package needs these tables. The pages of the handbook print them, and tests compare them with the
coordinators, the cleaner and captured logs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeVar

import msgspec

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "facts"
NO_GROUP = "(no group)"
"""The state before a group exists, and after it."""
NO_CLIENT = "No client gets this error."

GroupType = Literal["classic", "consumer", "share", "streams"]
_Facts = TypeVar("_Facts", bound="Facts")


class InvalidFacts(Exception):
    """A file of docs/facts/ is not YAML, or has a key or a value that its struct does not have."""


class Facts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a file. A key that it does not declare is an error."""


class ErrorEntry(Facts):
    """An error with its answers: a list of `{requests: when}`. Without answers, no client gets the error."""

    code: int
    operator: str
    client: str = NO_CLIENT
    answers: list[dict[str, str]] = []


class Answer(NamedTuple):
    """The requests that answer an error, and when they answer it."""

    requests: list[str]
    when: str


class ErrorFacts(Facts):
    """errors.yaml: the errors by name. `new` has what only the new coordinator answers.

    `classic_only` says for the errors that only the classic one answers, and their requests, what happens in 4.x.
    """

    about: str
    about_new: str
    source: str
    requests: dict[str, str]
    classic: dict[str, ErrorEntry]
    classic_only: dict[str, dict[str, str]]
    new: dict[str, ErrorEntry]

    def list_answers(self, entry: ErrorEntry) -> list[Answer]:
        """Return the answers of an error. A word of `requests` stands for all its requests."""
        return [Answer(self._name_requests(words), when) for answer in entry.answers for words, when in answer.items()]

    def list_classic_only(self) -> list[tuple[str, Answer]]:
        """Return each error that only the classic coordinator answers, with its requests and the answer in 4.x."""
        return [
            (name, Answer(self._name_requests(words), instead))
            for name, answers in self.classic_only.items()
            for words, instead in answers.items()
        ]

    def _name_requests(self, words: str) -> list[str]:
        return " ".join(self.requests.get(word, word) for word in words.split()).split()


class Reaction(Facts):
    """What one coordinator does at an event. A test is `folder/file.py::test`, or a golden script."""

    memory: str
    log: str
    clients: str
    source: str
    tests: Annotated[list[str], msgspec.Meta(min_length=1)]


class Event(Facts):
    """An event, and the reactions of both coordinators.

    Without `classic`, the event is about consumer groups. Without `new`, no test and no recording shows the reaction.
    """

    event: str
    classic: Reaction | None = None
    new: Reaction | None = None


class EventFacts(Facts):
    """events.yaml. `shared_tests` only gives names to the tests of several events."""

    about: str
    source: str
    shared_tests: list[str]
    events: list[Event]


class Remains(Facts):
    """What each coordinator has of the group after a load."""

    classic: str
    new: str


class TombstoneRow(Facts):
    """A log, and what remains of its group. `running` is what the classic coordinator has that wrote the log."""

    log: str
    when: str
    loaded: Remains
    running: str | None = None
    cleaned: Remains | None = None
    recorded: list[str] = []


class TombstoneTable(Facts):
    """The rows about one kind of tombstone."""

    title: str
    about: str
    rows: list[TombstoneRow]


class TombstoneFacts(Facts):
    """tombstones.yaml. `words` are the batches of a log."""

    about: str
    source: str
    words: dict[str, str]
    tables: list[TombstoneTable]


class Transition(Facts):
    """A change of the state of a group, or of its type and state: from the first to the second."""

    change: tuple[str, str]
    when: str
    records: str = ""
    seen: bool = True


class TransitionFacts(Facts):
    """transitions.yaml: the transitions by the type of the group."""

    about: str
    source: str
    transitions: dict[GroupType, list[Transition]]
    conversions: list[Transition]
    member_states: dict[str, str]


class Section(Facts):
    """A section of a page, as Markdown."""

    title: str
    text: str


class ProtocolFacts(Facts):
    """protocols.yaml: what an operator of consumer groups looks up."""

    about: str
    source: str
    sections: list[Section]


class CleanerRule(Facts):
    """A rule of the cleaner, its place in Kafka, and the function "module.function" of kafkagroups/log/."""

    rule: str
    kafka: str
    code: str


class CleanerFacts(Facts):
    """cleaner.yaml: the rules by what they are about."""

    about: str
    rules: dict[str, list[CleanerRule]]


def read_errors() -> ErrorFacts:
    return _read("errors.yaml", ErrorFacts)


def read_events() -> EventFacts:
    return _read("events.yaml", EventFacts)


def read_tombstones() -> TombstoneFacts:
    return _read("tombstones.yaml", TombstoneFacts)


def read_transitions() -> TransitionFacts:
    return _read("transitions.yaml", TransitionFacts)


def read_cleaner_rules() -> CleanerFacts:
    return _read("cleaner.yaml", CleanerFacts)


def read_protocols() -> ProtocolFacts:
    return _read("protocols.yaml", ProtocolFacts)


def _read(name: str, facts: type[_Facts]) -> _Facts:
    try:
        return msgspec.yaml.decode((FOLDER / name).read_bytes(), type=facts)
    except msgspec.DecodeError as error:
        raise InvalidFacts(f"docs/facts/{name}: {' '.join(str(error).split())}") from error
