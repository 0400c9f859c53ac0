"""Parsing of a Spark data frame with ``mapInArrow``.  ``python -m lab.examples`` runs this, with Java."""

import os
import sys
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import explode
from pyspark.sql.pandas.types import from_arrow_schema

from unspool.batch import PARSED, parse_batches

OUTPUT = '<think>Noon?</think><tool_call>{"name": "now", "arguments": {"zone": "Oslo"}}</tool_call>'

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # where unspool is installed
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
frame = spark.createDataFrame([("a", OUTPUT), ("b", OUTPUT[:60]), ("c", None)], "id string, text string")

schema = from_arrow_schema(pa.schema([pa.field("id", pa.string()), *PARSED]))
parsed = frame.mapInArrow(partial(parse_batches, dialect="hermes", key="id", keep=["id"]), schema)

calls = parsed.select("id", explode("tool_calls").alias("call")).select("id", "call.name", "call.status")
calls.show()
parsed.where("not ok").select("id", "error").show(truncate=False)

assert sorted(row.status for row in calls.collect()) == ["complete", "truncated"]
assert sorted((row.id, row.ok) for row in parsed.collect()) == [("a", True), ("b", True), ("c", False)]
spark.stop()
