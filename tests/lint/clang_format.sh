#!/usr/bin/env bash
# Every source file is as clang-format writes it: clang_format.sh ROOT CLANG_FORMAT.
# Exits with 77 (a skipped test) if CLANG_FORMAT is missing or another version than 14, since
# versions format differently.
set -euo pipefail
export LC_ALL=C
cd "${1:?usage: clang_format.sh ROOT CLANG_FORMAT}"
formatter=${2:?usage: clang_format.sh ROOT CLANG_FORMAT}

version=$("$formatter" --version 2>/dev/null) || version=
if [[ $version != *"version 14."* ]]; then
  echo "skipped: needs clang-format 14 (Debian: clang-format), found ${version:-none}"
  exit 77
fi
folders=()
for folder in sim kernels runtime tools tests; do
  if [[ -d $folder ]]; then folders+=("$folder"); fi
done
mapfile -d '' files < <(find "${folders[@]:?no sources here: wrong folder}" -type f \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 | sort -z)
if ((${#files[@]} == 0)); then echo "no sources found: wrong folder"; exit 1; fi
if ! "$formatter" --dry-run --Werror --ferror-limit=1 "${files[@]}"; then
  echo "format them with: clang-format -i FILE..."
  exit 1
fi
echo "${#files[@]} files are formatted"
