"""A job for test_spark.py: loads a log on `local-cluster`, and kills one of the executors while it runs.
The executors get the package as a zip.

    python cluster_job.py LOG        prints {"rows", "without", "killed", "executors", "failed_tasks"}

`without`: what an executor's interpreter says when it imports the package from nowhere; `killed`: the pid.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from kafkagroups import spark as kgs


def executors(application):
    """The pids of this application's executors."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(b"CoarseGrainedExecutorBackend" in word for word in words) and application.encode() in words:
            found.append(int(process.parent.name))
    return sorted(found)


def kill_one_at_work(context, killed):
    tracker = context.statusTracker()
    while not killed:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if any(stage and stage.numActiveTasks == 2 < stage.numTasks for stage in stages):  # one on each executor
            killed += executors(context.applicationId)[:1]
            os.kill(killed[0], signal.SIGKILL)
        time.sleep(0.02)


session = kgs.session("local-cluster[2,1,1024]", memory="1g")
without = subprocess.run([os.environ["PYSPARK_PYTHON"], "-c", "import kafkagroups"], capture_output=True, text=True)
before = executors(session.sparkContext.applicationId)
killed = []
tables = kgs.load(sys.argv[1], session=session, partitions=50)
killer = threading.Thread(target=kill_one_at_work, args=(session.sparkContext, killed), daemon=True)
killer.start()
rows = tables.offsets.select("group", "topic", "topic_partition", "committed_offset", "record_offset").collect()
killer.join(1)
tracker = session.sparkContext.statusTracker()
failed = sum(
    tracker.getStageInfo(stage).numFailedTasks
    for job in tracker.getJobIdsForGroup()
    for stage in tracker.getJobInfo(job).stageIds
)
print(
    json.dumps(
        {
            "rows": sorted(map(list, rows)),
            "without": without.stderr.splitlines()[-1:],
            "killed": killed,
            "failed_tasks": failed,
            "executors": before,
        }
    )
)
session.stop()
