"""The figures of the course, each made once for all tests."""

import functools

from kafkagroups.course.figures.catalog import FIGURES


@functools.cache
def make_figure(name):
    """Return the figure of this name as its lesson shows it."""
    return FIGURES[name]()
