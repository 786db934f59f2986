#!/usr/bin/env bash
# A program that opens CUDA's libraries when it needs them does not load them when it starts:
# starts_without_cuda.sh PROGRAM. The CUDA runtime may be linked in, statically.
set -euo pipefail
export LC_ALL=C
program=${1:?usage: starts_without_cuda.sh PROGRAM}

# Into a variable first: a grep that stops early would fail the pipe and pass for "not found".
needed=$(readelf -d "$program")
if ! grep -q 'NEEDED.*libc\.so' <<<"$needed"; then echo "$program is not a dynamic program"; exit 1; fi
if grep -E 'NEEDED.*lib(cuda|cudart|cupti|cublas|nvidia|nccl)' <<<"$needed"; then
  echo "$program loads CUDA libraries when it starts"
  exit 1
fi
echo "$program starts without CUDA's libraries"
