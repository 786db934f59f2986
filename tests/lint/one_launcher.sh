#!/usr/bin/env bash
# Kernels are launched in one place: one_launcher.sh ROOT. What is launched elsewhere would not be
# checked for errors, and would not run under the emulator of tests/emulator, which stands in for
# CUDA's headers.
set -euo pipefail
export LC_ALL=C
cd "${1:?usage: one_launcher.sh ROOT}"

folders=()
for folder in kernels runtime tests; do
  if [[ -d $folder ]]; then folders+=("$folder"); fi
done
mapfile -d '' files < <(find "${folders[@]:?no sources here: wrong folder}" -type f \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) \
  -not -path kernels/cuda/launch.cuh -not -path 'tests/emulator/include/*' -print0 | sort -z)
if ((${#files[@]} == 0)); then echo "no sources found: wrong folder"; exit 1; fi
# A comment may speak of <<<>>>, code cannot: something stands between. Names of calls in traces, and
# CUPTI's constants for them, are not calls.
if grep -HnE '<<<[^>]|(^|[^A-Za-z0-9_"])cu(da)?Launch(Cooperative)?Kernel[A-Za-z]*[[:space:]]*[(<]' "${files[@]}"; then
  echo "launch kernels with launch() of kernels/cuda/launch.cuh"
  exit 1
fi
echo "${#files[@]} files launch no kernels by themselves"
