"""The fate of each record in a log, and the functions behind `explain`, `timeline`, `stats` and `diff`."""
