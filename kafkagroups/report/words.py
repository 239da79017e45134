"""Numbers, times and names as the texts of a report."""

from __future__ import annotations

from datetime import datetime, timedelta

_BYTE_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_TIME_UNITS = ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_EPOCH = datetime(1970, 1, 1)


def format_bytes(count: int) -> str:
    """Return a number of bytes with a unit, for example "1.5 MiB"."""
    for size, unit in _BYTE_UNITS:
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def format_count(count: int) -> str:
    """Return a number with a thin space between thousands."""
    return f"{count:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def format_of(count: int, noun: str) -> str:
    """Return a number with its noun, for example "1 record" or "2 records"."""
    return f"{format_count(count)} {noun}{'' if count == 1 else 's'}"


def format_share(part: int, whole: int) -> str:
    """Return a share in percent; "-" of nothing. A share that is not 0 is never shown as 0%, nor 100% if it is less."""
    if not whole:
        return "-"
    share = f"{part / whole:.0%}"
    if part and share == "0%":
        return "<1%"
    return ">99%" if part < whole and share == "100%" else share


def format_time(ms: int | None) -> str:
    """Return a time in UTC, to the second. `ms` is in ms since 1970. None and negative numbers mean no time: "-"."""
    if ms is None or ms < 0:
        return "-"
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).strftime("%Y-%m-%d %H:%M:%S")
    except OverflowError:
        return f"{ms} ms"


def format_duration(ms: float) -> str:
    """Return a duration, for example "61 s" or "7.0 days"."""
    for unit_ms, unit in _TIME_UNITS:
        if ms >= 2 * unit_ms:
            return f"{ms / unit_ms:.1f} {unit}"
    return f"{ms:.0f} ms"


def format_seconds(seconds: float) -> str:
    """Return the time of a load, for example "2.5 s"."""
    return "< 0.1 s" if seconds < 0.1 else f"{seconds:.1f} s"


def format_partition(number: int | None) -> str:
    """Return the name of a partition of the offsets topic; None is a folder without a number."""
    return "-" if number is None else str(number)
