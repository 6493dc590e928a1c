#!/usr/bin/env bash
# Archive the classes that a Spark job loads (AppCDS), so that the next JVM maps them instead of reading 20,000 of them.
#
#     scripts/archive_classes.sh PYTHON FILE
#
# The JVM checks by itself that class path and jars are those of the archive, and does without it when they are not.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$1
archive=$2
scratch="$root/.state/archiving"
rm -rf "$scratch" "$archive"
mkdir -p "$scratch" "$root/.state/log"
trap 'rm -rf "$scratch"' EXIT

# The class path has to be the one that txloom.storage.spark.session sets, in the same order.
cd "$scratch"
PYSPARK_PYTHON="$python" TXLOOM_JARS="$root/jars" SPARK_LOCAL_IP=127.0.0.1 \
  "$(dirname "$python")/spark-submit" --master 'local[2]' --driver-memory 1g \
  --driver-class-path "$root/jars/*:$root/jars/s3/*" \
  --driver-java-options "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit=$scratch/spark.jsa -Xlog:disable -Xlog:all=error" \
  "$root/scripts/exercise_spark.py" "$scratch/lake" >"$root/.state/log/archive.log" 2>&1
mv "$scratch/spark.jsa" "$archive"
