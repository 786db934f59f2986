#!/usr/bin/env bash
# A program that must start without CUDA holds none of it: free_of_cuda.sh PROGRAM.
set -euo pipefail
export LC_ALL=C
program=${1:?usage: free_of_cuda.sh PROGRAM}

# Into variables first: a grep that stops early would fail the pipe and pass for "not found".
needed=$(readelf -d "$program")
symbols=$(nm -C "$program")
if grep -E 'NEEDED.*lib(cuda|cudart|cupti|cublas|nvidia|nccl)' <<<"$needed"; then
  echo "$program loads CUDA libraries"
  exit 1
fi
if grep -m 3 -E ' (_*cuda[A-Z]|zenflow::kernels::.*_cuda)' <<<"$symbols"; then
  echo "$program has CUDA linked in"
  exit 1
fi
if ! grep -q 'zenflow::' <<<"$symbols"; then echo "$program has none of our symbols"; exit 1; fi
echo "no CUDA in $program"
