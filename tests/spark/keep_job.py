"""A job for test_keeping.py: keeps a snapshot of a growing topic for each coordinator, until the job is killed.

python keep_job.py TOPIC FOLDER [now]

The snapshots are in FOLDER/classic and FOLDER/new. `now`: the job ends when it has read everything that exists.
"""

import sys
from pathlib import Path

from kafkagroups import spark as kgs

topic, folder, *now = sys.argv[1:]
session = kgs.session("local[2]", memory="1g")
queries = [
    kgs.keep(topic, Path(folder, coordinator), coordinator, until_now=bool(now), session=session)
    for coordinator in ("classic", "new")
]
print("started", flush=True)
for query in queries:
    query.awaitTermination()
