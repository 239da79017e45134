"""A job for test_killed_stream.py: writes the records of a growing topic into Parquet files, until the job is killed.

    python stream_job.py TOPIC FOLDER [now]

The files are in FOLDER/sink, and the checkpoint in FOLDER/checkpoint. `now`: the job ends when it has read everything
that exists.
"""

import sys

from kafkagroups import spark as kgs

topic, folder, *now = sys.argv[1:]
session = kgs.session("local[2]", memory="1g")
kgs.register(session)
reader = session.readStream.format("consumer_offsets").option("table", "records")
reader = reader.option("columns", "partition,offset,key,value")
if not now:
    reader = reader.option("maxRowsPerTrigger", 500)
writer = reader.load(topic).writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
query = writer.trigger(**({"availableNow": True} if now else {"processingTime": "0 seconds"})).start(f"{folder}/sink")
print("started", flush=True)
query.awaitTermination()
