"""Loops over many cases in one test: `with case(name)` adds the name of the case to an error."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def case(name: object) -> Iterator[None]:
    """Add the name of a case to an error that is raised in it."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"case: {name}")
        raise
