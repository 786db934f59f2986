# shellcheck shell=bash
# What phases share: . "$GPU_CHECK_ROOT/script/gpu_check/phase.sh"
set -euo pipefail
cd "$GPU_CHECK_ROOT"

on_gpu() { [[ $GPU_CHECK_DEVICE == cuda ]]; }

skip() { echo "$*" >"$GPU_CHECK_RESULTS/why"; exit 77; }
fail() { echo "$*" >"$GPU_CHECK_RESULTS/why"; exit 1; }

# Logs, records and runs a command. Its exit code is the function's.
exec 3>&2
run() {
  local line
  line=$(printf '%q ' "$@")
  line=${line//$GPU_CHECK_ROOT\//} # as typed in the repository
  printf '\n$ %s\n' "$line" >&3
  echo "${line% }" >>"$GPU_CHECK_RESULTS/commands"
  "$@"
}

# Fails unless the phase "build" has passed, now or in an earlier call.
need_build() {
  [[ -e $GPU_CHECK_BUILD/built ]] || fail 'phase "build" has to pass first'
}

# Path of a program of the build: program tools/zenflow-sim
program() {
  need_build
  echo "$GPU_CHECK_BUILD/$1"
}

# Adds to the phase's figures: figures KEY VALUE [KEY VALUE...]; a value is JSON, or else text.
figures() {
  python3 - "$GPU_CHECK_RESULTS/figures.json" "$@" <<'PYTHON'
import json, os, sys

def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return text

file, *pairs = sys.argv[1:]
known = json.load(open(file)) if os.path.exists(file) else {}
known.update((key, parsed(value)) for key, value in zip(pairs[::2], pairs[1::2], strict=True))
with open(file, "w") as out:
    json.dump(known, out)
PYTHON
}
