#!/usr/bin/env bash
# Every header of ours compiles alone: headers_compile_alone.sh BUILD, after BUILD was built. That
# build has shown it of a header that one of its sources includes before anything else, if that source's
# object is newer than both; of the others the objects that CMake has for this question
# (VERIFY_INTERFACE_HEADER_SETS) are built.
set -euo pipefail
export LC_ALL=C
build=${1:?usage: headers_compile_alone.sh BUILD}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$build"

# Objects and their sources as they are compiled. One with precompiled headers shows nothing, and neither does a
# file that the build wrote: one header's object, or several sources put together.
mapfile -t compiled < <(awk -v generated="\"file\": \"$PWD/" '
  /"command":/ { precompiled = /cmake_pch/; object = $0; gsub(/.* -o | -c .*/, "", object) }
  /"file": ".*\.cpp"/ && !precompiled && !index($0, generated) {
    gsub(/.*"file": "|",?$/, ""); print object "\t" $0
  }' compile_commands.json)
mapfile -t objects < <(ninja -t targets all |
  sed -n 's/^\(.*_verify_interface_header_sets\.dir\/.*\.h\.cxx\.o\): .*/\1/p')
if ((${#compiled[@]} == 0 || ${#objects[@]} == 0)); then
  echo "no sources or no headers in $build: CMake names them otherwise now"
  exit 1
fi

declare -A first_header
while IFS=$'\t' read -r source header; do first_header[$source]=$header; done < <(
  awk 'FNR == 1 { first = 1 }
       first && /^[[:space:]]*#/ {
         first = 0
         if (/#include "/) { gsub(/.*#include "|".*/, ""); print FILENAME "\t" $0 }
       }' "${compiled[@]##*$'\t'}")
declare -A shown
for one in "${compiled[@]}"; do
  object=${one%%$'\t'*} source=${one##*$'\t'}
  header=${first_header[$source]-}
  if [[ -n $header && $object -nt $source && $object -nt $root/$header ]]; then shown[$header]=1; fi
done
left=()
for object in "${objects[@]}"; do
  header=${object#*_verify_interface_header_sets.dir/*_verify_interface_header_sets/}
  [[ -n ${shown[${header%.cxx.o}]-} ]] || left+=("$object")
done
echo "${#objects[@]} headers, ${#left[@]} of them the first of no source"
if ((${#left[@]} == 0)); then exit 0; fi
exec cmake --build . --target "${left[@]}" -j 1
