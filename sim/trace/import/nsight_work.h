/// Kernels, copies and memsets of a Nsight Systems export.
#pragma once

#include "sim/trace/import/nsight_file.h"

namespace zenflow::sim {

/// Adds the rows of all three tables to the file's timeline and names the devices. Tables that are
/// missing are done without; without kernels the result's problems say so.
void read_gpu_work(NsightFile& file);

}  // namespace zenflow::sim
