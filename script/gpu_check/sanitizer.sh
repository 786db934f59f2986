# shellcheck shell=bash
# compute-sanitizer's TOOL on every test program with the label gpu: sanitizer TOOL [OPTION...]
# Programs are run one after the other, so that a limit leaves the results of those before it.

sanitizer() {
  local tool=$1 command programs binary log code=0 sound=0
  shift
  on_gpu || skip "checks GPU code; the emulated kernels run under sanitizers with ./script/test asan"
  command=$(command -v compute-sanitizer ||
    echo "$(dirname "$(dirname "$GPU_CHECK_NVCC")")/bin/compute-sanitizer")
  if [[ ! -x $command ]]; then skip "compute-sanitizer is not installed"; fi
  mapfile -t programs < <(ctest --test-dir "$GPU_CHECK_BUILD" -L '^gpu$' --show-only=json-v1 |
    python3 -c 'import json, sys
for program in sorted({test["command"][0] for test in json.load(sys.stdin)["tests"]}): print(program)')
  if ((${#programs[@]} == 0)); then fail "no test with the label gpu is built"; fi

  export ZENFLOW_REQUIRE_GPU=1
  for binary in "${programs[@]}"; do
    log=$GPU_CHECK_RESULTS/$tool-$(basename "$binary").log
    run "$command" --tool "$tool" --error-exitcode 99 "$@" "$binary" --gtest_brief=1 >"$log" 2>&1 ||
      code=$?
    if grep -qiE 'device not supported|not supported on this device' "$log"; then
      skip "compute-sanitizer does not support this device: $(grep -im1 'supported' "$log")"
    fi
    echo "$(basename "$binary"): exit code $code: $(grep -E 'SUMMARY' "$log" | tail -n 1)"
    if ((code != 0)); then
      tail -n 40 "$log"
      figures "$(basename "$binary")" "exit code $code"
      fail "$(basename "$binary"): exit code $code; the rest was not run"
    fi
    sound=$((sound + 1))
    figures sound_programs "$sound" programs "${#programs[@]}"
  done
}
