"""The package's data source on Spark, in one warm session, into Spark's noop sink."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.measure import Missing, Result, Runs
from benchmarks.topics import Topic
from benchmarks.ways.package import ROOT


def load(topic: Topic, scratch: Path) -> Runs:
    from kafkagroups import spark as kgs
    from kafkagroups.spark.session import NoJava

    os.environ["PYTHONPATH"] = str(ROOT)  # Spark's workers need the package, too.
    try:
        session = kgs.session("local[2]", memory="4g")
    except NoJava as error:
        raise Missing(str(error)) from None
    kgs.register(session)
    frame = session.read.format("consumer_offsets").option("table", "offsets").load(str(topic.folder))

    def run_job() -> float:
        start = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - start

    try:
        live = frame.count()
        run_job()
        yield None
        while True:
            run_job()  # Spark ends Python workers after an idle minute, so each timed job has one directly before it.
            yield Result(run_job(), ("live", live))
    finally:
        session.stop()
