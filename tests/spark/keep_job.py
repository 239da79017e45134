"""A job for test_keeping.py: keeps a snapshot of a growing topic, until it is killed.

python keep_job.py TOPIC FOLDER COORDINATOR [now]        `now`: it ends when it has read everything that exists
"""

import sys

from kafkagroups import spark as kgs

topic, folder, coordinator, *now = sys.argv[1:]
session = kgs.session("local[2]", memory="1g")
query = kgs.keep(topic, folder, coordinator, until_now=bool(now), session=session)
print("started", flush=True)
query.awaitTermination()
