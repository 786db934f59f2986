#!/usr/bin/env bash
# What is installed finds its profiles and models wherever it is moved to, and has its pages:
# installed_tree.sh BUILD_FOLDER CMAKE.
set -euo pipefail
export LC_ALL=C
build=$(realpath "${1:?usage: installed_tree.sh BUILD_FOLDER CMAKE}")
cmake=${2:?usage: installed_tree.sh BUILD_FOLDER CMAKE}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() { echo "$*"; exit 1; }

"$cmake" --install "$build" --prefix "$folder/first" >install.log || { cat install.log; exit 1; }
mv first second

# Nothing of the source tree is within reach: no folder above has profiles.
asked=(--model Qwen/Qwen2.5-1.5B --gpu A100-80GB --ram 256GB --sequence-length 512)
env -i HOME="$folder" second/bin/zenflow-sim check "${asked[@]}" >answer.txt || { cat answer.txt; fail "check failed"; }
grep -q '^step ' answer.txt || fail "no step time in the answer"
env -i HOME="$folder" second/bin/zenflow-sim list profiles | grep -q zenflow_a100x4 || fail "no profiles are listed"
env -i HOME="$folder" second/bin/zenflow-tune --version >/dev/null || fail "zenflow-tune does not start"
# The published runs name profiles by paths to where they are beside them.
env -i HOME="$folder" second/bin/zenflow-validate --published --json >published.json || fail "no published runs"

# Each flag of the help is in the manual, and completed.
help=$(second/bin/zenflow-sim check --help)
mapfile -t flags < <(grep -o '^ *-[-a-z,]*' <<<"$help" | grep -o -- '--[a-z-]*')
((${#flags[@]} > 20)) || fail "only ${#flags[@]} flags in the help"
manual=$(sed 's/\\-/-/g' second/share/man/man1/zenflow-sim.1)
source second/share/bash-completion/completions/zenflow-sim
complete_word() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _zenflow_sim
}
zsh=$(<second/share/zsh/site-functions/_zenflow-sim)
for flag in "${flags[@]}"; do
  [[ $manual == *"\\fB$flag\\fR"* ]] || fail "$flag is not in the manual"
  complete_word zenflow-sim check "$flag"
  [[ " ${COMPREPLY[*]} " == *" $flag "* ]] || fail "bash does not complete $flag"
  [[ $zsh == *"$flag'["* ]] || fail "zsh does not complete $flag"
done
complete_word zenflow-sim ch
[[ ${COMPREPLY[*]} == check ]] || fail "bash completes ch as ${COMPREPLY[*]}"
complete_word zenflow-sim check --dtype f
[[ ${COMPREPLY[*]} == "fp16 fp32" ]] || fail "bash completes --dtype f as ${COMPREPLY[*]}"
for program in calibrate train tune validate; do
  grep -q '^\.SH OPTIONS' second/share/man/man1/zenflow-$program.1 || fail "zenflow-$program has no manual"
  bash -n second/share/bash-completion/completions/zenflow-$program
done
echo "installed, moved and found"
