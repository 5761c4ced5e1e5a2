# Read by Spark's scripts when SPARK_CONF_DIR names this folder.
#
# Spark looks for data sources, and runs their workers, with PYSPARK_PYTHON, else with the `python3` on PATH: never with the Python
# that started it. hudi-py must be installed for that interpreter, on the driver and on every worker; where it is not, Spark says
# [DATA_SOURCE_NOT_FOUND] Failed to find the data source: hudi-py.
here="$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")" && pwd)"
export PYSPARK_PYTHON="${PYSPARK_PYTHON:-$here/../../.venv/bin/python}"
