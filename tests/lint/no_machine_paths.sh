#!/usr/bin/env bash
# No tracked file names a folder of the machine it was written on: no_machine_paths.sh ROOT.
# Without git (a release tarball) every file outside build/ is looked at.
set -euo pipefail
export LC_ALL=C
cd "${1:?usage: no_machine_paths.sh ROOT}"

files() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard
  else
    find . -name build -prune -o -type f -print0
  fi
}

listed=$(files | tr -cd '\0' | wc -c)
if ((listed == 0)); then echo "no files found: wrong folder?"; exit 1; fi
# The character before the slash must not belong to a longer, relative path. A file may be
# listed and already deleted: hence -s.
if files | xargs -0 -r grep -sHnIE '(^|[^A-Za-z0-9_.})-])/(work|root|farm|home|Users)/' --; then
  echo "a path of one machine; use a path relative to the repository"
  exit 1
fi
echo "$listed files, no machine paths"
