"""Small helpers that several packages use: Java's numbers, texts, visible text, missing extras.

Names and metadata in a log can contain any character, also those that begin a terminal's commands or, such as U+202E,
reverse the text after them, so what people read shows them as escapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO
from unicodedata import category

from kafkagroups.errors import UsageError

MIN_INT32 = -(2**31)
MAX_INT32 = 2**31 - 1
MIN_INT64 = -(2**63)
MAX_INT64 = 2**63 - 1
"""The smallest and the largest numbers of Java's types int and long."""
MAX_DIGITS = 20
"""The largest offset or time in Kafka (an int64) has 19 digits."""


def parse_whole_number(text: str, field: str | None = None) -> int:
    """Return the number that a text contains. Raises UsageError, about the field, if it is none or has many digits.

    >>> parse_whole_number("-12")
    -12
    """
    if re.fullmatch(f"[-+]?[0-9]{{1,{MAX_DIGITS}}}", text):
        return int(text)
    found = repr(text) if len(text) <= 2 * MAX_DIGITS else f"a text of {len(text)} characters"
    raise UsageError(f"expected a whole number of at most {MAX_DIGITS} digits, found {found}", field=field)


MAX_LINE_BYTES = 64 * 1024 * 1024


def read_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file. Raises UsageError if a line has more than MAX_LINE_BYTES bytes."""
    while line := file.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise UsageError(f"expected lines of at most {MAX_LINE_BYTES} bytes, found a longer one")
        yield line


_ESCAPED_CATEGORIES = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's categories of control characters, format characters, surrogates, line and paragraph separators."""


def escape(text: str) -> str:
    r"""Return the text with control and format characters escaped, as Python's `repr` does.

    >>> escape("a\nb")
    'a\\nb'
    """
    if text.isprintable():
        return text
    is_escaped = {each: category(each) in _ESCAPED_CATEGORIES for each in text}
    return "".join(each.encode("unicode_escape").decode() if is_escaped[each] else each for each in text)


EXTRA_OF_MODULE = {
    "polars": "polars",
    "pyarrow": "arrow",
    "numpy": "pandas",
    "pandas": "pandas",
    "pyspark": "spark",
    "kafka": "live",
    "IPython": "course",
    "anywidget": "course",
    "ipywidgets": "course",
    "jupyterlab": "course",
}
"""The extra that installs each module. pyproject.toml lists the packages of each extra."""

NATIVE_ENGINE = "kafkagroups_engine"
"""No extra installs the native engine, because it is built from the folder `engine`."""


def describe_missing(module: str | None, user: str) -> str | None:
    """Return a line that says how to install a missing module, or None if nothing of this project does.

    `module` is, for example, "pyarrow.parquet", and `user` is what needs it.
    """
    package = (module or "").partition(".")[0]
    if package == NATIVE_ENGINE:
        return f"{user} needs the native engine: pip install ./engine, in a clone of kafkagroups"
    extra = EXTRA_OF_MODULE.get(package)
    if extra is None:
        return None
    return f"{user} needs the Python package {package}: pip install 'kafkagroups[{extra}]'"
