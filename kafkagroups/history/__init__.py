"""Each record and its fate; explain, stats and diff are queries on the fates."""
