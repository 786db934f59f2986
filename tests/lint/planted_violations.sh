#!/usr/bin/env bash
# The lints find what they are for: planted_violations.sh. Plants one violation at a time in a
# small tree and expects the lint to fail and to name it.
set -euo pipefail
export LC_ALL=C
lints=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

plant() { # FILE LINE: a small clean tree in which FILE has LINE as its second line
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/sim/{base,config,graph,engine} "$tree/tools"
  printf '#include <string>\n' | tee "$tree"/sim/base/a.h >"$tree"/tools/a.cpp
  mkdir -p "$tree/$(dirname "$1")"
  printf '#pragma once\n%s\n' "$2" >"$tree/$1"
}

expect() { # LINT EXIT_CODE TEXT
  local output code=0
  output=$("$lints/$1.sh" "$tree" 2>&1) || code=$?
  if ((code != $2)) || [[ $output != *"$3"* ]]; then
    printf '%s: expected exit code %s and "%s", found %s and:\n%s\n' "$1" "$2" "$3" "$code" "$output"
    failures=$((failures + 1))
  fi
}

plant sim/engine/b.h '#include "sim/graph/a.h"'
expect include_direction 0 'allowed direction'
plant sim/base/b.h '#include "sim/config/a.h"'
expect include_direction 1 'sim/base/b.h:2: sim/base must not include sim/config'
plant sim/engine/b.cpp '  #  include "runtime/a.h"'
expect include_direction 1 'sim/engine/b.cpp:2: sim/engine must not include runtime'
plant kernels/b.cu '#include "sim/config/a.h"'
expect include_direction 1 'kernels/b.cu:2: kernels must not include sim/config'
plant sim/new/b.h '#include "sim/base/a.h"'
expect include_direction 1 'sim/new/b.h:2: sim/new is not in the list'
plant sim/graph/b.h '#include "algorithms.h"'
expect include_direction 1 'sim/graph/b.h:2: "algorithms.h" is not a path from the repository root'
plant sim/graph/b.h '#include <sim/base/a.h>'
expect include_direction 1 'sim/graph/b.h:2: <sim/base/a.h> is ours'
plant sim/graph/b.h '#include <boost/config.hpp>'
expect include_direction 1 'sim/graph/b.h:2: <boost/config.hpp> belongs in a .cpp file'
plant sim/graph/csr.h '#include <boost/config.hpp>'
expect include_direction 0 'allowed direction'
plant sim/graph/b.cpp '#include <cuda_runtime_api.h>'
expect include_direction 1 'sim/graph/b.cpp:2: <cuda_runtime_api.h>: no CUDA'
plant kernels/b.cu '#include <fmt/format.h>'
expect include_direction 1 'kernels/b.cu:2: <fmt/format.h> does not compile under nvcc'

plant kernels/b.cu '  kernel<<<1, 32>>>(out);'
expect one_launcher 1 'kernels/b.cu:2:  kernel<<<1, 32>>>'
plant runtime/b.cpp 'cudaLaunchKernelEx(&config, kernel);'
expect one_launcher 1 'runtime/b.cpp:2:cudaLaunchKernelEx'
plant kernels/cuda/launch.cuh 'cudaLaunchKernelEx(&config, kernel);'
cp "$tree"/sim/base/a.h "$tree"/kernels/
expect one_launcher 0 'launch no kernels by themselves'

rm -rf "${tree:?}"/*
expect include_direction 1 'wrong folder'

for folder in work root; do
  plant docs/b.md "see /$folder/main"
  expect no_machine_paths 1 'docs/b.md:2:see'
  plant docs/b.md "see docs/$folder/main and https://example.com/$folder/main"
  expect no_machine_paths 0 'no machine paths'
done

plant docs/b.md 'see `sim/base/{a,b}.h` and [this](c.md#part)'
expect pages_name_files 1 'docs/b.md:2: there is no sim/base/b.h'
expect pages_name_files 1 'docs/b.md:2: there is no docs/c.md'
plant docs/b.md 'see `sim/base/*.h`, `sim/base/NAME.h` and [this](../tools/a.cpp)'
expect pages_name_files 0 'are there'

((failures == 0)) && echo "every planted violation was found"
