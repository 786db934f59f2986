#!/usr/bin/env bash
# What the build installs is what gpu-check can be given: fetched_packages.sh ROOT. Names development
# packages of script/install-packages that script/fetch-deps leaves out.
set -euo pipefail
cd "${1:?usage: fetched_packages.sh ROOT}"
# Header-only parts of Boost are in libboost-dev; the benchmarks, SimGrid and ranks are not built there.
not_needed='^(libboost-graph-dev|libsimgrid-dev|libbenchmark-dev|libopenmpi-dev)$'
needed=$(sed -n '/^    build)/,/;;/p; /^    test)/,/;;/p' script/install-packages |
  grep -oE '[a-z0-9+.-]+-dev\b' | grep -vE "$not_needed" | sort -u)
fetched=$(sed -n '/^PACKAGES=/,/)$/p' script/fetch-deps | grep -oE '[a-z0-9+.-]+-dev\b' | sort -u)
[[ -n $needed && -n $fetched ]] || { echo "no packages found: the scripts are written otherwise now"; exit 1; }
missing=$(comm -23 <(echo "$needed") <(echo "$fetched"))
if [[ -n $missing ]]; then
  echo "script/fetch-deps: not fetched, but installed for the build: $missing"
  exit 1
fi
echo "$(wc -l <<<"$needed") packages, all fetched"
