"""Times for the simulated clocks of the lessons, in milliseconds: the start, an hour, a day."""

START_MS = 1_700_000_000_000
"""The time at which each clock starts, in milliseconds since 1970."""
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
