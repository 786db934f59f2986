# shellcheck shell=bash
# compute-sanitizer's TOOL on every test program with the label gpu: sanitizer TOOL [OPTION...]
# Programs are run one after the other, so that a limit leaves the results of those before it.

sanitizer() {
  local tool=$1 command programs binary name log code unsound=()
  shift
  on_gpu || skip "checks GPU code; emulated kernels run under sanitizers: ./script/test asan"
  need_build
  command=$(command -v compute-sanitizer ||
    echo "$(dirname "$(dirname "$GPU_CHECK_NVCC")")/bin/compute-sanitizer")
  if [[ ! -x $command ]]; then skip "compute-sanitizer is not installed"; fi
  mapfile -t programs < <(ctest --test-dir "$GPU_CHECK_BUILD" -L '^gpu$' --show-only=json-v1 |
    python3 -c 'import json, sys
tests = json.load(sys.stdin)["tests"]
print("\n".join(sorted({test["command"][0] for test in tests})))')
  if ((${#programs[@]} == 0)); then fail "no test with the label gpu is built"; fi

  export ZENFLOW_REQUIRE_GPU=1
  for binary in "${programs[@]}"; do
    name=$(basename "$binary")
    log=$GPU_CHECK_RESULTS/$name.log
    code=0
    run "$command" --tool "$tool" --error-exitcode 99 "$@" "$binary" --gtest_brief=1 >"$log" 2>&1 ||
      code=$?
    if grep -qi 'device not supported' "$log"; then
      skip "compute-sanitizer says: $(grep -im1 'device not supported' "$log")"
    fi
    echo "$name: exit code $code: $(grep -E 'SUMMARY' "$log" | tail -n 1)"
    figures "$name" "exit code $code"
    if ((code != 0)); then
      unsound+=("$name")
      tail -n 40 "$log"
    fi
  done
  ((${#unsound[@]} == 0)) || fail "$tool: ${unsound[*]}"
}
