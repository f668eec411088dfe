"""Calls of each region, counted by Spark. Not run by our tests: there is no Spark where they run.

Versions that belong together: Spark 4.0 with io.delta:delta-spark_2.13:4.0.0, or Spark 3.5 with io.delta:delta-spark_2.12:3.3.2; for a
bucket org.apache.hadoop:hadoop-aws of the Hadoop that Spark ships (3.4.1 with Spark 4.0, 3.3.4 with Spark 3.5).

    spark-submit --packages io.delta:delta-spark_2.13:4.0.0,org.apache.hadoop:hadoop-aws:3.4.1 examples/spark_tables.py s3a://bucket/prefix
"""
import sys

from pyspark.sql import SparkSession, functions

spark = (
    SparkSession.builder.appName("tokenwatt")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    # Times in the tables are microseconds UTC.
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.hadoop.fs.s3a.aws.credentials.provider", "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider")
    .getOrCreate()
)
requests = spark.read.format("delta").load(f"{sys.argv[1]}/requests")
(
    requests.where((functions.col("date") == functions.current_date()) & (functions.col("measured_at") == "server"))
    .groupBy("region", "model")
    .agg(functions.count("*").alias("calls"), functions.sum("output_tokens").alias("output_tokens"))
    .show()
)
