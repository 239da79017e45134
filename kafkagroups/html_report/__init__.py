"""The report on a log: one self-contained HTML page. Names in the log are data, and never markup."""
