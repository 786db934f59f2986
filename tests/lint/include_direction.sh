#!/usr/bin/env bash
# Who may include whom: include_direction.sh ROOT. Violations are printed as file:line.
# Headers are included from the repository root, so every header is within reach of every
# file; the link graph alone does not catch a step in the wrong direction.
set -euo pipefail
export LC_ALL=C
cd "${1:?usage: include_direction.sh ROOT}"

# The one list of allowed edges, "module: what it may include"; a module may always include
# itself, and sim/* is every module of sim.
allowed='
sim/base:
sim/offload:         sim/base
sim/model:           sim/base
sim/config:          sim/base sim/offload sim/model
sim/trace:           sim/base sim/config sim/model sim/offload
sim/trace/import:    sim/base sim/config sim/model sim/offload sim/trace
sim/trace/analysis:  sim/base sim/config sim/model sim/offload sim/trace sim/trace/import
sim/deepspeed:       sim/base sim/config sim/model sim/offload
sim/job_files:       sim/base sim/config sim/model sim/offload sim/deepspeed
sim/cost:            sim/base sim/config sim/model
sim/memory:          sim/base sim/config sim/model
sim/graph:           sim/base sim/config sim/model
sim/engine:          sim/base sim/graph
sim/schedule:        sim/base sim/config sim/model sim/offload sim/deepspeed sim/cost sim/memory sim/graph sim/engine
sim/simulate:        sim/base sim/config sim/model sim/offload sim/deepspeed sim/cost sim/memory sim/graph sim/engine sim/schedule sim/trace
sim/report:          sim/job_files sim/base sim/config sim/model sim/offload sim/deepspeed sim/cost sim/memory sim/graph sim/engine sim/schedule sim/trace sim/simulate
sim/page:            sim/base sim/config sim/model sim/offload sim/graph sim/engine sim/schedule sim/trace sim/simulate
sim/calibrate:       sim/base sim/config sim/model sim/offload sim/deepspeed sim/cost sim/memory sim/graph sim/engine sim/schedule sim/trace sim/simulate
sim/calibrate/trace: sim/base sim/config sim/model sim/offload sim/deepspeed sim/cost sim/memory sim/graph sim/engine sim/schedule sim/trace sim/trace/import sim/trace/analysis sim/simulate sim/calibrate
sim/accuracy:        sim/*
sim/tune:            sim/base sim/config sim/model sim/offload sim/deepspeed sim/cost sim/memory sim/graph sim/engine sim/schedule sim/trace sim/simulate sim/report
sim/tune/trace:      sim/base sim/config sim/model sim/offload sim/deepspeed sim/cost sim/memory sim/graph sim/engine sim/schedule sim/trace sim/trace/import sim/trace/analysis sim/simulate sim/report sim/calibrate sim/calibrate/trace sim/tune
kernels:             sim/base
runtime:             sim/base sim/config sim/model sim/offload sim/deepspeed sim/schedule sim/simulate sim/trace sim/calibrate sim/accuracy sim/tune kernels
tools:               sim/* runtime
'

# Libraries that cost seconds per file that sees them: in .cpp files only.
heavy='^(CLI|boost|yaml-cpp|nlohmann|simdjson|oneapi|Eigen)/'
# But headers that .cpp files of their own folder share.
heavy_headers='^sim/(graph/csr|calibrate/robust)\\.h$'
cuda='^(cuda|cupti|cublas|curand|nvtx|nvml|nccl|cooperative_groups|thrust/|cub/)'

folders=()
for folder in sim kernels runtime tools; do
  if [[ -d $folder ]]; then folders+=("$folder"); fi
done
find "${folders[@]:?no sources here: wrong folder}" -type f \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  sort -z |
  xargs -0 -r grep -HnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]' |
  awk -v allowed="$allowed" -v heavy="$heavy" -v heavy_headers="$heavy_headers" -v cuda="$cuda" '
    function module_of(path,   folder) {
      # The longest folder of the list that the path is in.
      while (sub("/[^/]*$", "", path)) {
        if (folder == "") folder = path
        if (path in known) return path
      }
      return folder
    }
    function report(what) {
      print file ":" line ": " what
      violations++
    }
    BEGIN {
      count = split(allowed, rules, "\n")
      for (i = 1; i <= count; i++) {
        if (rules[i] == "") continue
        split(rules[i], rule, ":")
        known[rule[1]] = 1
        targets = split(rule[2], names, " ")
        for (j = 1; j <= targets; j++) edge[rule[1], names[j]] = 1
      }
    }
    {
      # file:line:#include "target"; none of our paths has a colon
      split($0, field, ":")
      file = field[1]
      line = field[2]
      text = substr($0, length(file) + length(line) + 3)
      match(text, /[<"][^>"]*/)
      target = substr(text, RSTART + 1, RLENGTH - 1)
      is_ours = substr(text, RSTART, 1) == "\""
      from = module_of(file)
      includes++

      if (is_ours) {
        to = module_of(target)
        if (target !~ /^(sim|kernels|runtime|tools)\//)
          report("\"" target "\" is not a path from the repository root (other libraries: <...>)")
        else if (!(from in known))
          report(from " is not in the list of allowed edges")
        else if (from != to && !((from, to) in edge) && !(to ~ /^sim\// && (from, "sim/*") in edge))
          report(from " must not include " to " (" target ")")
      } else if (target ~ /^(sim|kernels|runtime|tools)\//) {
        report("<" target "> is ours: include it with quotes")
      }
      if (target ~ heavy && file !~ /\.cpp$/ && file !~ heavy_headers)
        report("<" target "> belongs in a .cpp file")
      if (target ~ cuda && (file ~ /^sim\// || file ~ /^tools\//))
        report("<" target ">: no CUDA in sim/ and tools/")
      if (target ~ /^fmt\// && file ~ /\.(cu|cuh)$/)
        report("<" target "> does not compile under nvcc: format in a .cpp file")
    }
    END {
      if (includes == 0) { print "no #include found: wrong folder"; exit 1 }
      if (violations) { print violations " violation(s)"; exit 1 }
      print includes " includes, all in an allowed direction"
    }'
