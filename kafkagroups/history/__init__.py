"""The fate of each record in a log, and the verbs explain, stats and diff."""
