# shellcheck shell=bash
# Python with PyTorch and, where --wheels brings it, DeepSpeed.

site=$GPU_CHECK_WORK/site
export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}
# ninja, with which PyTorch compiles operators.
PATH=$site/bin:$(dirname "$GPU_CHECK_PYTHON"):$PATH
export TORCH_EXTENSIONS_DIR=$GPU_CHECK_WORK/torch-extensions
export MAX_JOBS=${GPU_CHECK_JOBS:-$(nproc)}
if on_gpu; then
  export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
  # Of this GPU alone: DeepSpeed 0.19.8 does not read lists such as PyTorch's images set, "9.0a".
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1)
  if [[ -n $capability ]]; then export TORCH_CUDA_ARCH_LIST=$capability; fi
  if [[ -n $GPU_CHECK_NVCC ]]; then
    export CUDA_HOME=${CUDA_HOME:-$(dirname "$(dirname "$GPU_CHECK_NVCC")")}
  fi
else
  export DS_ACCELERATOR=cpu OMP_NUM_THREADS=1
fi

has_module() { "$GPU_CHECK_PYTHON" -c "import $1" 2>/dev/null; }

# measure MODEL CASE...: see training/measure.py
measure() {
  has_module torch || skip "--python has no PyTorch"
  run "$GPU_CHECK_PYTHON" -u script/gpu_check/training/measure.py "$@"
}
