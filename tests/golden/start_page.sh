#!/usr/bin/env bash
# The commands of docs/start.md run as they stand there, and print what it shows: start_page.sh ROOT PROGRAMS.
# Run are the blocks in `sh`; the lines of those in `text` must be among what is printed.
set -euo pipefail
export LC_ALL=C
root=$(realpath "${1:?usage: start_page.sh ROOT PROGRAMS}")
export PATH=${2:?usage: start_page.sh ROOT PROGRAMS}:$PATH
page=$root/docs/start.md
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

blocks() { awk -v kind="\`\`\`$1" '$0 == kind {on = 1; next} /^```/ {on = 0} on' "$page"; }
blocks sh >commands.sh
commands=$(grep -c '^zenflow-' commands.sh) || true
((commands >= 8)) || { echo "only $commands commands on the page"; exit 1; }
bash -euo pipefail commands.sh >printed.txt 2>said.txt || { cat said.txt; exit 1; }
missing=0
while IFS= read -r line; do
  grep -qxF -- "$line" printed.txt || { echo "not printed: $line"; missing=1; }
done < <(blocks text)
((missing == 0))
for file in job.yaml tuned/ds_config_optimal.json predicted.json.gz result.json sweep.csv report.html; do
  [[ -s $file ]] || { echo "no $file"; exit 1; }
done
echo "$commands commands ran as docs/start.md has them"
