"""A response that may arrive later, for example at the end of a rebalance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class ResponseFuture(Generic[T]):
    """The response to a request. `done` is True as soon as the request is answered.

    Examples
    --------
    >>> response = ResponseFuture()
    >>> response.then(print)
    >>> response.complete("generation 1")
    generation 1
    >>> response.done, response.value
    (True, 'generation 1')
    """

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._listeners: list[Callable[[T], None]] = []

    @property
    def value(self) -> T:
        """The response. Raises RuntimeError if the request is not answered yet."""
        if self._value is None:
            raise RuntimeError("the request is not answered yet; advance the clock or complete what it waits for")
        return self._value

    def complete(self, value: T) -> None:
        """Answer the request with `value`, and call the listeners. If the request is already answered, do nothing."""
        if self.done:
            return
        self.done = True
        self._value = value
        for listener in self._listeners:
            listener(value)

    def then(self, listener: Callable[[T], None]) -> None:
        """Call the listener with the response: now if the request is answered, otherwise later."""
        if self.done:
            listener(self.value)
        else:
            self._listeners.append(listener)

    def __repr__(self) -> str:
        return f"ResponseFuture({self._value!r})" if self.done else "ResponseFuture(waiting)"
