#!/usr/bin/env bash
# Prepares a real HDFS for tests: libhdfs, built with the machine's C compiler from the sources that the crate hdfs-sys has, and
# Hadoop's cluster in one process. Safe to run again; a second call is quick. Needs cargo, cc, a JDK and mvn.
#   tests/stores/hdfs/setup.sh FOLDER HADOOP_VERSION JAVA_HOME
set -euo pipefail
folder="$1" version="$2" java="$3"
crate="hdfs-sys" crate_version="0.3.1"

fail() {
  echo "HDFS cannot be set up: $1" >&2
  exit 1
}

mkdir -p "$folder"
part="$(mktemp -d "$folder/part.XXXXXX")"
trap 'rm -rf "$part"' EXIT

jar="hadoop-client-minicluster-$version.jar"
if [ ! -s "$folder/$jar" ]; then
  echo "== fetching org.apache.hadoop:hadoop-client-minicluster:$version (55 MB)" >&2
  command -v mvn >/dev/null || fail "there is no mvn"
  mvn -q -B dependency:copy -Dartifact="org.apache.hadoop:hadoop-client-minicluster:$version" -DoutputDirectory="$part" >&2 \
    </dev/null || fail "mvn could not fetch hadoop-client-minicluster:$version"
  mv -f "$part/$jar" "$folder/$jar"
fi

if [ ! -s "$folder/libhdfs.so" ]; then
  echo "== building libhdfs from $crate $crate_version" >&2
  command -v cargo >/dev/null || fail "there is no cargo"
  command -v cc >/dev/null || fail "there is no C compiler"
  [ -e "$java/include/jni.h" ] || fail "$java is no JDK: it has no include/jni.h"
  mkdir "$part/src"
  : >"$part/src/lib.rs"
  printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n%s = "=%s"\n' \
    "$crate" "$crate_version" >"$part/Cargo.toml"
  (cd "$part" && cargo vendor --quiet vendored >/dev/null </dev/null) || fail "cargo could not fetch $crate $crate_version"
  sources="$part/vendored/$crate/libhdfs"
  from="$sources/hdfs_3_3"
  cc -shared -fPIC -O1 -w -fcommon -D_GNU_SOURCE -I"$sources" -I"$from" -I"$from/include" -I"$from/os" -I"$from/os/posix" \
    -I"$java/include" -I"$java/include/linux" "$from"/*.c "$from"/os/posix/*.c -o "$part/libhdfs.so" \
    -L"$java/lib/server" -ljvm -lpthread -ldl >&2 || fail "cc could not build libhdfs"
  mv -f "$part/libhdfs.so" "$folder/libhdfs.so"
fi
