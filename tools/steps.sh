#!/usr/bin/env bash
# Functions for scripts of several steps; source this file, do not run it. Steps run one after another. At the end, the script prints
# a table with the time of each step, the slowest tests of all steps, and the number of tests.
#   step NAME COMMAND...       runs a step, and ends the script if it fails
#   attempt NAME COMMAND...    runs a step; if it fails, the script continues, and `failed` contains the step's name
#   beside NAME COMMAND...     starts a step that uses one core or the network, in parallel with the next steps
#   join                       waits for that step, and shows its output
failed=""
step_names=()
step_seconds=()
HUDI_PY_TALLY="$(mktemp)"
export HUDI_PY_TALLY

step() {
  local began=$SECONDS result=0
  echo
  echo "==== [$SECONDS s] $1"
  step_names+=("$1")
  step_seconds+=("not finished")
  "${@:2}" || result=$?
  step_seconds[-1]="$((SECONDS - began)) s"
  [ "$result" = 0 ] || step_seconds[-1]+=", failed"
  echo "==== $1: ${step_seconds[-1]}"
  return "$result"
}

attempt() {
  step "$@" || failed="$failed${failed:+, }$1"
}

beside() {
  beside_name="$1" beside_log="$(mktemp)" beside_began=$SECONDS
  shift
  # in its own process, so that its time can be measured
  (
    result=0
    "$@" || result=$?
    echo "$((SECONDS - beside_began)) s until it was done"
    exit "$result"
  ) >"$beside_log" 2>&1 &
  beside_job=$!
}

join() {
  local result=0
  joined() {
    wait "$beside_job" || result=$?
    cat "$beside_log"
    return "$result"
  }
  step "$beside_name (beside the steps before; what was left)" joined
}

summary() {
  local at
  echo
  echo "==== $SECONDS s in all"
  for at in "${!step_names[@]}"; do printf '%9s  %s\n' "${step_seconds[at]}" "${step_names[at]}"; done
  if [ -s "$HUDI_PY_TALLY" ]; then
    echo "==== tests, with those that ran in several steps"
    awk -F '\t' '
      $1 == "counted" { counted[$3] += $2; next }
      { tests[$1]++; seconds += $2 }
      END {
        for (each in tests) printf "%8d  %s\n", tests[each], each
        printf "%8d  seconds of processes that run them\n", seconds
        for (each in counted) printf "%8d  %s\n", counted[each], each
      }' "$HUDI_PY_TALLY"
    echo "==== the slowest"
    grep -v '^counted' "$HUDI_PY_TALLY" | sort -t $'\t' -k2,2 -rn | awk -F '\t' 'NR <= 30 { printf "%7.1f s  %s\n", $2, $3 }'
  fi
  rm -f "$HUDI_PY_TALLY"
}
trap summary EXIT
