/// What a job's flags leave open, from the machine that this runs on: `--host this`.
#pragma once

#include <filesystem>

#include "sim/job_files/job_inputs.h"

namespace zenflow::tools {

/// Fills in card and number of GPUs with their slots, memory, cores and sockets, and notes their
/// flags in `found`.
/// Read from /proc and /sys, without a GPU library; limits of the control group count. `root`
/// stands for "/". Throws Error(kInput) if there is no NVIDIA GPU and --gpu names none, or if GPUs
/// differ.
void look_at_this_machine(const std::filesystem::path& root, sim::JobInputs& inputs);

}  // namespace zenflow::tools
