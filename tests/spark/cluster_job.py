"""A job for test_spark.py: loads a log on `local-cluster`, whose executors get the package as a zip.

    python cluster_job.py LOG        prints {"rows", "without"}

`without`: what an executor's interpreter says when it imports the package from nowhere.
"""

import json
import os
import subprocess
import sys

from kafkagroups import spark as kgs

session = kgs.session("local-cluster[2,1,1024]", memory="1g")
without = subprocess.run([os.environ["PYSPARK_PYTHON"], "-c", "import kafkagroups"], capture_output=True, text=True)
tables = kgs.load(sys.argv[1], session=session, partitions=50)
rows = tables.offsets.select("group", "topic", "topic_partition", "committed_offset", "record_offset").collect()
print(json.dumps({"rows": sorted(map(list, rows)), "without": without.stderr.splitlines()[-1:]}))
session.stop()
