"""Many cases of one rule: `case` names the case in an error, `first_quickly` leaves most to slower tests."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def case(name: object) -> Iterator[None]:
    """Add the name of a case to an error that is raised in it."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"case: {name}")
        raise


def first_quickly(cases: Iterable, mark: pytest.MarkDecorator = pytest.mark.thorough) -> list:
    """Return the cases of a test as parameters, of which all but the first have a marker."""
    first, *others = cases
    return [first, *(pytest.param(*_values(each), id=_id(each), marks=mark) for each in others)]


def _values(parameter) -> tuple:
    return parameter.values if hasattr(parameter, "values") and hasattr(parameter, "marks") else (parameter,)


def _id(parameter) -> str | None:
    return getattr(parameter, "id", None)
