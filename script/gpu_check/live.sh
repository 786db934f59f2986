# shellcheck shell=bash
# zenflow-train on the GPU; without one, tiny models on the host.

# live losses | live ranks | live grid MODEL POINT...: see live.py
live() {
  need_build
  run python3 -B script/gpu_check/live.py "$@"
}

# compute-sanitizer's TOOL on a run of every kind of step: sanitize_training TOOL [OPTION...]
sanitize_training() {
  local tool=$1 command log=$GPU_CHECK_RESULTS/$1.log code=0
  shift
  on_gpu || skip "checks GPU code; the engine runs on an emulated GPU under sanitizers: ./script/test asan"
  command=$(command -v compute-sanitizer ||
    echo "$(dirname "$(dirname "$GPU_CHECK_NVCC")")/bin/compute-sanitizer")
  if [[ ! -x $command ]]; then skip "compute-sanitizer is not installed"; fi
  head -c 20000 "$GPU_CHECK_ROOT/LICENSE" >"$GPU_CHECK_RESULTS/text.txt"
  # Warm-up, first selection, exchange of columns, sums, uploads and a checkpoint.
  run "$command" --tool "$tool" --error-exitcode 99 "$@" "$(program tools/zenflow-train)" --quiet \
    --model scenarios/training/llama_3m.json --data "$GPU_CHECK_RESULTS/text.txt" --device cuda \
    --dtype bf16 --sequence-length 32 --steps 9 --update-interval 2 --select-interval 4 \
    --full-warm-up-rounds 1 --checkpoint "$GPU_CHECK_RESULTS/$tool.checkpoint" >"$log" 2>&1 || code=$?
  if grep -qi 'device not supported' "$log"; then
    skip "compute-sanitizer says: $(grep -im1 'device not supported' "$log")"
  fi
  rm -rf "$GPU_CHECK_RESULTS/$tool.checkpoint"
  figures "$tool" "exit code $code"
  if ((code != 0)); then
    tail -n 40 "$log"
    fail "$tool: exit code $code"
  fi
}
