#!/usr/bin/env bash
# A program that must start without CUDA holds none of it: free_of_cuda.sh PROGRAM.
set -euo pipefail
export LC_ALL=C
program=${1:?usage: free_of_cuda.sh PROGRAM}

needed=$(readelf -d "$program" | grep 'NEEDED')
if grep -E 'lib(cuda|cudart|cupti|cublas|nvidia|nccl)' <<<"$needed"; then
  echo "$program loads CUDA libraries"
  exit 1
fi
if nm -C "$program" | grep -m 3 -E ' (_?_?cuda[A-Z]|cudart|zenflow::kernels::.*_cuda)'; then
  echo "$program has CUDA linked in"
  exit 1
fi
echo "no CUDA in $program"
