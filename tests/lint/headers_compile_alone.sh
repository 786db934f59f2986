#!/usr/bin/env bash
# Every header of ours compiles alone: headers_compile_alone.sh BUILD, after BUILD was built. That
# build has shown it of a header that one of its sources includes before anything else; of the others
# the objects that CMake has for this question (VERIFY_INTERFACE_HEADER_SETS) are built.
set -euo pipefail
export LC_ALL=C
build=${1:?usage: headers_compile_alone.sh BUILD}
cd "$build"

# Sources as they were compiled. One with precompiled headers shows nothing, and neither does a file that
# the build wrote: one header's object, or several sources put together.
mapfile -t sources < <(awk -v generated="\"file\": \"$PWD/" '
  /"command":/ { precompiled = /cmake_pch/ }
  /"file": ".*\.cpp"/ && !precompiled && !index($0, generated) { gsub(/.*"file": "|",?$/, ""); print }
' compile_commands.json | sort -u)
mapfile -t objects < <(ninja -t targets all |
  sed -n 's/^\(.*_verify_interface_header_sets\.dir\/.*\.h\.cxx\.o\): .*/\1/p')
if ((${#sources[@]} == 0 || ${#objects[@]} == 0)); then
  echo "no sources or no headers in $build: CMake names them otherwise now"
  exit 1
fi

declare -A shown
while read -r header; do shown[$header]=1; done < <(
  awk 'FNR == 1 { first = 1 }
       first && /^[[:space:]]*#/ { first = 0; if (/#include "/) { gsub(/.*#include "|".*/, ""); print } }
  ' "${sources[@]}")
left=()
for object in "${objects[@]}"; do
  header=${object#*_verify_interface_header_sets.dir/*_verify_interface_header_sets/}
  [[ -n ${shown[${header%.cxx.o}]-} ]] || left+=("$object")
done
echo "${#objects[@]} headers, ${#left[@]} of them the first of no source"
if ((${#left[@]} == 0)); then exit 0; fi
exec cmake --build . --target "${left[@]}" -j 1
