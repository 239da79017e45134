"""The start time of every lesson's clock, an hour and a day, in milliseconds."""

START = 1_700_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
