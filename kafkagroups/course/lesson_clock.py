"""Times for the clocks of the lessons, in milliseconds: the start, an hour, a day.

`START` is the time at which each clock starts, in milliseconds since the epoch.
"""

START = 1_700_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
