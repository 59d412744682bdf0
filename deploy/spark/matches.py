"""The join of deploy/job.toml on Spark: trades with the quotes that their price lies in, from Kafka to files.

For ``spark-submit``, which has the settings that `slidejoin.spark.advised_settings` returns.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

import slidejoin as sj
from slidejoin.spark import stream_join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

TRADES = "trade BIGINT, symbol STRING, price BIGINT, quantity BIGINT, ts TIMESTAMP"
QUOTES = "quote BIGINT, symbol STRING, bid BIGINT, ask BIGINT, ts TIMESTAMP"


def topic(spark: SparkSession, brokers: str, name: str, schema: str) -> DataFrame:
    """Return a topic as a stream of rows."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers)
    records = reader.option("subscribe", name).option("startingOffsets", "earliest").load()
    return records.select(F.from_json(F.col("value").cast("string"), schema).alias("row")).select("row.*")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the query until it is stopped; with ``--available-now`` until all records that are there are joined."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", required=True, help="host:port")
    parser.add_argument("--checkpoint", required=True, help="a folder that driver and executors share")
    parser.add_argument("--output", required=True, help="the folder of the files")
    parser.add_argument("--every", default="5 seconds", help="the trigger's interval (%(default)s)")
    parser.add_argument("--available-now", action="store_true", help="end when all is read")
    given: Any = parser.parse_args(arguments)
    spark = SparkSession.builder.appName("slidejoin matches").getOrCreate()
    matches = stream_join(
        topic(spark, given.brokers, "trades", TRADES),
        topic(spark, given.brokers, "quotes", QUOTES),
        on="l.symbol = r.symbol AND l.price BETWEEN r.bid AND r.ask",
        window=sj.TimeWindow("5 seconds", on="ts", lateness="2 seconds"),
        select=["l.trade", "r.quote", "l.symbol", "l.price", "r.bid", "r.ask", "l.ts"],
    )
    writer = matches.writeStream.format("parquet").option("checkpointLocation", given.checkpoint)
    trigger: dict[str, Any] = {"availableNow": True} if given.available_now else {"processingTime": given.every}
    writer.trigger(**trigger).start(given.output).awaitTermination()


if __name__ == "__main__":
    main()
