"""A load that is observed: the native engine notes what it is asked to, and the readable engine calls an observer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from kafkagroups.groups import fold as readable
from kafkagroups.groups.observer import Observer
from kafkagroups.groups.shard import CountBytes, Shard
from kafkagroups.loading import native
from kafkagroups.loading.engines import Engine
from kafkagroups.loading.load import OpenTopic, WholeTopic
from kafkagroups.log.segments import Log, Notes
from kafkagroups.log.stop import Stop
from kafkagroups.records.dialects import Dialect

ObserverT = TypeVar("ObserverT", bound=Observer)


class ObservedLoad(Generic[ObserverT]):
    """A load of a topic. `groups` is its result.

    By partition number, `shards` has what the native engine has folded, and `observers` the observers of the other
    logs, each made by `make_observer` for a log and the notes of its reading. `options` say what the native engine
    notes (`native.read`). `whole` is the one of `OpenTopic.load`.
    """

    def __init__(
        self,
        topic: OpenTopic,
        make_observer: Callable[[Log, Notes], ObserverT],
        whole: WholeTopic | None = None,
        **options: Any,
    ) -> None:
        self.shards: dict[int | None, Shard] = {}
        self.observers: dict[int | None, ObserverT] = {}
        self._make_observer = make_observer
        self._options = options
        self._name = topic.chosen_engine.name
        self.groups = topic.load(engine=Engine(self._name, self._fold), whole=whole)

    def _fold(self, log: Log, dialect: Dialect, stop: Stop, *, count_bytes: CountBytes) -> Shard:
        if self._name == "compiled":
            shard = native.fold_if_possible(log, dialect, stop, count_bytes=count_bytes, **self._options)
            if shard is not None:
                self.shards[log.partition] = shard
                return shard
        notes = Notes()
        observer = self.observers[log.partition] = self._make_observer(log, notes)
        return readable.fold(log, dialect, stop, count_bytes=count_bytes, observer=observer, notes=notes)
