"""Chooses the engine that folds a log."""

from __future__ import annotations

from kafkagroups.errors import UsageError
from kafkagroups.loading.groups import Scan

ENGINES = ("auto", "python", "compiled")
COMPILED_FROM = 16 * 1024 * 1024
"""From how many bytes on `auto` takes the compiled engine: below, importing numba costs more than it saves."""


def engine_of(engine: str, size: int) -> Scan | None:
    """The compiled fold for so many bytes, when it is asked for, or pays; None: the readable loader.

    UsageError: an unknown engine.
    """
    if engine not in ENGINES:
        raise UsageError(f"the engine is one of {', '.join(ENGINES)}, not {engine!r}")
    if engine == "python" or (engine == "auto" and size < COMPILED_FROM):
        return None
    try:
        from kafkagroups.kernels.logs import scan
    except ImportError:
        if engine == "auto":
            return None
        raise UsageError("the compiled engine needs numba: pip install numba") from None
    return scan
