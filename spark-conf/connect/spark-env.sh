# Read by Spark's scripts when SPARK_CONF_DIR names this folder.
#
# Spark looks for data sources, and runs their workers, with PYSPARK_PYTHON, else with the `python3` on PATH: never with the Python
# that started it. hudi-py must be installed for that interpreter, on the driver and on every worker; where it is not, Spark says
# [DATA_SOURCE_NOT_FOUND] Failed to find the data source: hudi-py.
#
# Where the variable is not set: the .venv of a checkout, else the Python that PySpark was installed for by pip.
if [ -z "${PYSPARK_PYTHON:-}" ]; then
  here="$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")" && pwd)"
  for python in "$here/../../.venv/bin/python" "${SPARK_HOME:-}/../../../../bin/python"; do
    if [ -x "$python" ]; then
      export PYSPARK_PYTHON="$python"
      break
    fi
  done
fi
