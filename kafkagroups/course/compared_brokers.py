"""The same requests to brokers of several Kafka versions: what each answers and writes, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import zip_longest
from textwrap import wrap
from typing import Any

from kafkagroups.coordinator import Errors, FetchedOffset, GroupCoordinator, OffsetCommit, ResponseFuture, messages
from kafkagroups.coordinator.consumer_requests import DescribedConsumerGroup
from kafkagroups.course.broker import commit_in_transaction, end_transaction, restart_after_crash, start_broker
from kafkagroups.course.group_life import format_count, format_join, format_sync
from kafkagroups.course.log_lines import Names, collect_batch_names, describe_record
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.groups.replay import find_group_id, read_control_type
from kafkagroups.log.batch import Batch
from kafkagroups.records.serde import decode

Step = tuple[str, Any]
Script = Callable[[GroupCoordinator], Iterable[Step] | Step]
"""A function that sends requests to a broker, and yields (or returns) for each step a label and the answer.

An answer is what the broker's method returned, or a text.
"""
_WAITS = "waits"
_COLUMN_WIDTH = 46
_DIFFERS = "◀ differs"
_APPENDED = "log ← "
_STYLE = f"<style>\n{files(__package__).joinpath('compared_brokers.css').read_text(encoding='utf-8')}</style>"


@dataclass(frozen=True)
class ComparedStep:
    label: str
    answers: tuple[str, ...]
    records: tuple[tuple[str, ...], ...]

    @property
    def differs(self) -> bool:
        return len(set(self.answers)) > 1 or len(set(self.records)) > 1

    @property
    def cells(self) -> list[tuple[str, tuple[str, ...]]]:
        """The answer and the records of each broker; what all brokers share stands once."""
        cells = list(zip(self.answers, self.records, strict=True))
        return cells if self.differs else cells[:1]


@dataclass(frozen=True)
class BrokerComparison:
    """The steps of a script that several brokers played. It shows itself as a table, in a notebook as HTML.

    A step in which all brokers answered and wrote the same has one cell, so the steps that differ stand out. If no step
    differs, there is one column.
    """

    kafka: tuple[str, ...]
    steps: tuple[ComparedStep, ...]

    @property
    def differences(self) -> list[str]:
        return [step.label for step in self.steps if step.differs]

    @property
    def heads(self) -> list[str]:
        return [f"Kafka {versions}" for versions in (self.kafka if self.differences else [" and ".join(self.kafka)])]

    def __getitem__(self, part: slice) -> BrokerComparison:
        return BrokerComparison(self.kafka, self.steps[part])

    def __repr__(self) -> str:
        lines = [_format_row(self.heads)]
        for step in self.steps:
            lines += ["", f"{step.label}   {_DIFFERS}" if step.differs else step.label]
            columns = [_wrap_cell(answer, records) for answer, records in step.cells]
            lines += [_format_row(row) for row in zip_longest(*columns, fillvalue="")]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{escape(brokers)}</th>' for brokers in self.heads)
        rows = "\n".join(self._write_row(step) for step in self.steps)
        return (
            f'{_STYLE}\n<table class="kg-compared">\n<thead><tr><th scope="col">step</th>{head}</tr></thead>\n'
            f"<tbody>\n{rows}\n</tbody>\n</table>"
        )

    def _write_row(self, step: ComparedStep) -> str:
        cells = ""
        versions = self.kafka if step.differs else (" and ".join(self.kafka),)
        span = "" if step.differs else f' colspan="{len(self.heads)}"'
        for version, (answer, records) in zip(versions, step.cells, strict=True):
            items = "".join(f"<li>{_APPENDED}{escape(record)}</li>" for record in records)
            written = f"<ul>{items}</ul>" if items else ""
            cells += f'<td{span} data-kafka="Kafka {escape(version)}">{escape(answer)}{written}</td>'
        mark = f"<br>{_DIFFERS}" if step.differs else ""
        row_class = ' class="differs"' if step.differs else ""
        return f'<tr{row_class}><th scope="row">{escape(step.label)}{mark}</th>{cells}</tr>'


def compare_brokers(script: Script, kafka: Sequence[str] = ("4.3.1", "3.9.2"), **settings: Any) -> BrokerComparison:
    """Play a script with a new broker of each Kafka version, and return what they answer and write.

    Each broker has one partition of the offsets topic, and the arguments of `start_broker` in `settings`. A script can
    look at the answers, so the brokers may have different steps; a missing one has the answer "–". An answer that
    arrives later stands at the step that waited for it: "waits, then NONE".

    Examples
    --------
    >>> def script(broker):
    ...     yield "a heartbeat to no group", broker.heartbeat("billing", 1, "m")
    ...     yield "a commit of a member", broker.offset_commit("billing", {}, generation=1, member_id="m")
    >>> compare_brokers(script).differences
    []
    """
    settings.setdefault("offsets_topic_num_partitions", 1)
    played = [list(_play(script, start_broker(kafka=version, **settings))) for version in kafka]
    steps = []
    for step in zip_longest(*played, fillvalue=("", "–", ())):
        labels, answers, records = zip(*step, strict=True)
        steps.append(ComparedStep(next(filter(None, labels)), answers, records))
    return BrokerComparison(tuple(kafka), tuple(steps))


def delete_while_pending(broker: GroupCoordinator, request: str = "OffsetDelete") -> Iterator[Step]:
    """Delete the committed offset 20 of a partition while offset 41 is pending, then commit the transaction.

    `request` is "OffsetDelete" or "DeleteGroups", or "the topic is deleted".
    """
    group = "fraud-check"
    payments_0 = TopicPartition("payments", 0)
    yield "a commit of 20", broker.offset_commit(group, {payments_0: OffsetCommit(20)})
    yield "a commit of 41 in a transaction", commit_in_transaction(broker, group, 1, {"payments-0": 41})
    if request == "OffsetDelete":
        yield request, broker.offset_delete(group, [payments_0])
    elif request == "DeleteGroups":
        yield request, broker.delete_groups([group])
    else:
        broker.partitions_deleted([payments_0])
        yield request, ""
    yield "the transaction ends", end_transaction(broker, group, 1, commits=True)
    yield "a fetch", broker.offset_fetch(group)
    yield "a fetch after a failover", restart_after_crash(broker).offset_fetch(group)


def _play(script: Script, broker: GroupCoordinator) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    steps = script(broker)
    topics = {topic_id: name for name, topic_id in broker.validator.topic_ids.items()}
    played: list[tuple[str, Any, str, list[str]]] = []
    record_count = 0
    for label, answer in [steps] if isinstance(steps, tuple) else steps:
        lines = _read_lines(broker, topics)
        played.append((label, answer, format_answer(answer), lines[record_count:]))
        # A broker that has lost a partition reads none of its records.
        record_count = max(record_count, len(lines))
    for label, answer, text, records in played:
        final = format_answer(answer)
        yield label, text if text == final else f"{text}, then {final}", tuple(records)


def _read_lines(broker: GroupCoordinator, topics: Mapping[str, str]) -> list[str]:
    batches = [batch for partition in sorted(broker.manager.owned) for batch in broker.manager.logs.read(partition)]
    names = Names(collect_batch_names(batches).clients, dict(topics))
    return [line for batch in batches for line in _describe_batch(batch, names)]


def _describe_batch(batch: Batch, names: Names) -> Iterator[str]:
    for log_record in batch.records:
        if batch.is_control:
            marker = read_control_type(log_record)
            yield f"{marker.name.lower() if marker else 'control'} marker, producer {batch.producer_id}"
        else:
            record = decode(log_record.key, log_record.value)
            producer = f", producer {batch.producer_id}" if batch.is_transactional else ""
            yield f"{find_group_id(record)}: {describe_record(record, names)}{producer}"


def _wrap_cell(answer: str, records: Sequence[str]) -> list[str]:
    width = _COLUMN_WIDTH - 2
    lines = wrap(answer, width) or [""]
    for record in records:
        lines += wrap(f"{_APPENDED}{record}", width, subsequent_indent="  ")
    return lines


def _format_row(cells: Sequence[str]) -> str:
    return ("    " + "".join(f"{cell:<{_COLUMN_WIDTH}}" for cell in cells)).rstrip()


def format_answer(answer: Any) -> str:
    match answer:
        case ResponseFuture():
            return format_answer(answer.value) if answer.done else _WAITS
        case Errors():
            return answer.name
        case messages.JoinGroupResult():
            return format_join(answer)
        case messages.SyncGroupResult():
            return format_sync(answer)
        case messages.DescribedGroup():
            error = f"{answer.error.name}, " if answer.error else ""
            return f"{error}{answer.state}, {format_count(len(answer.members), 'member')}"
        case messages.ListedGroup():
            return f"{answer.group_id} ({answer.type}, {answer.state})"
        case dict():
            return _format_answers_by_key(answer)
        case object(error=Errors() as error) if error:
            return error.name
        case FetchedOffset():
            return str(answer.offset)
        case messages.OffsetFetchResult(offsets=of_partitions) | messages.OffsetDeleteResult(partitions=of_partitions):
            return format_answer(dict(of_partitions))
        case messages.LeaveGroupResult():
            return format_answer([error for _, error in answer.members])
        case messages.ConsumerHeartbeatResult(assignment=assignment):
            count = "" if assignment is None else f", {format_count(sum(map(len, assignment.values())), 'partition')}"
            return f"epoch {answer.member_epoch}{count}"
        case DescribedConsumerGroup():
            return f"{answer.state}, group epoch {answer.group_epoch}, {format_count(len(answer.members), 'member')}"
        case list() | tuple():
            return "; ".join(format_answer(part) for part in answer) or "nothing"
    return str(answer)


def _format_answers_by_key(answers: Mapping[Any, Any]) -> str:
    parts = {str(key): format_answer(value) for key, value in answers.items()}
    texts = set(parts.values())
    if len(texts) == 1 and all(isinstance(value, Errors) for value in answers.values()):
        return texts.pop()
    return ", ".join(f"{name}: {text}" for name, text in sorted(parts.items())) or "nothing"
