"""The figures of the course, each made once for all tests."""

import functools

from kafkagroups.course.figures.catalog import FIGURES
from kafkagroups.course.figures.marks import Box, Label


@functools.cache
def make_figure(name):
    """Return the figure of this name as its lesson shows it."""
    return FIGURES[name]()


def list_labels(marks):
    """Return the texts of boxes and labels, in the order in which they are drawn."""
    lines = [mark.lines if isinstance(mark, Box) else (mark.text,) for mark in marks if isinstance(mark, Box | Label)]
    return [text for texts in lines for text in texts]
