"""A mapping that builds each value when it is first used.

`Groups` (groups.py) uses this mapping. Decoding all groups of a large log takes long, but most callers use only a few
groups.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Generic, TypeVar

Parts = TypeVar("Parts")
Value = TypeVar("Value")


class LazyMapping(Mapping[str, Value], Generic[Parts, Value]):
    """A mapping of names to values.

    `parts` has, for each name, the parts from which `build` makes the value.
    """

    def __init__(self, parts: Mapping[str, Parts], build: Callable[[Parts], Value]) -> None:
        self._parts = dict(parts)
        self._build = build
        self._built: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Value:
        if name not in self._built:
            self._built[name] = self._build(self._parts[name])
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __repr__(self) -> str:
        return repr(dict(self))

    def select(self, names: Collection[str]) -> LazyMapping[Parts, Value]:
        """Return a mapping that has only these names. Names that this mapping does not have are ignored."""
        selected = LazyMapping({name: self._parts[name] for name in names if name in self._parts}, self._build)
        selected._built = {name: self._built[name] for name in names if name in self._built}
        return selected

    def unbuilt(self) -> dict[str, Parts]:
        """Return by name the parts of each value that was not built yet."""
        return {name: parts for name, parts in self._parts.items() if name not in self._built}

    def add(self, other: LazyMapping[Parts, Value]) -> None:
        """Add all values of another mapping: the values that were built, and the parts of the values that were not."""
        self._parts |= other._parts
        self._built |= other._built
