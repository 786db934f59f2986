#!/usr/bin/env bash
# Pages name files that exist: pages_name_files.sh ROOT. Checked are links between pages, and paths from the repository
# root in `code`, also with {a,b} or *. Names in capitals, as in sim/schedule/NAME.cpp, stand for one to be chosen.
set -euo pipefail
export LC_ALL=C
cd "${1:?usage: pages_name_files.sh ROOT}"

names=0
missing=0
check() { # PAGE LINE NAME
  local one
  names=$((names + 1))
  # What is expanded here has no blank, no quote and no $: see the patterns below.
  for one in $(eval "echo $3"); do
    if [[ ! -e $one ]]; then
      echo "$1:$2: there is no $one"
      missing=$((missing + 1))
    fi
  done
}

for page in README.md docs/*.md profiles/README.md scenarios/README.md; do
  [[ -e $page ]] || continue
  while IFS=: read -r line name; do
    name=${name//\`/}
    [[ $name =~ [A-Z]{3} && $name != *README* && $name != *CMakeLists* ]] || check "$page" "$line" "$name"
  done < <(grep -noE '`(sim|kernels|runtime|tools|tests|script|cmake|profiles|scenarios|docs)/[A-Za-z0-9_./{},*-]*`' "$page" || true)
  while IFS=: read -r line name; do
    check "$page" "$line" "$(dirname "$page")/${name#*](}"
  done < <(grep -noE '\]\([A-Za-z0-9_./-]+' "$page" | grep -vE 'https?$' || true)
done
if ((names == 0)); then echo "no page names a file: wrong folder"; exit 1; fi
if ((missing)); then echo "$missing name(s) without a file"; exit 1; fi
echo "$names files named in pages are there"
