"""The time at which every lesson's clock starts, and an hour and a day, all in milliseconds."""

START = 1_700_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
