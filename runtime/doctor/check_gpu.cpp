#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/doctor/check.h"
#include "runtime/gpu/cupti_subscription.h"

namespace zenflow::runtime {
namespace {

bool usable(const MachineFacts& facts) {
  return judge_driver(facts.driver).state == DriverState::kUsable;
}

Check check_driver(const MachineFacts& facts, GpuNeed need) {
  const DriverVerdict verdict = judge_driver(facts.driver);
  Check check{"gpu-driver", CheckStatus::kOk, verdict.found, "", ""};
  if (verdict.state == DriverState::kUsable) return check;
  check.expected = verdict.expected;
  check.advice = verdict.advice;
  // A machine without a GPU, or a build without CUDA, is as its owner made it. The rest is broken.
  const bool is_absence = verdict.state == DriverState::kNotBuilt ||
                          (verdict.state == DriverState::kNoDriver && facts.gpus.empty());
  check.status = is_absence && need == GpuNeed::kOptional ? CheckStatus::kWarn : CheckStatus::kFail;
  return check;
}

Check check_stub(const MachineFacts& facts) {
  const bool loaded = judge_driver(facts.driver).state == DriverState::kStub;
  if (!loaded && facts.stub_folders.empty()) {
    return {"libcuda-stub", CheckStatus::kOk, "no stub libcuda on the loader's path", "", ""};
  }
  return {"libcuda-stub", loaded ? CheckStatus::kFail : CheckStatus::kWarn,
          facts.stub_folders.empty()
              ? std::string("a stub libcuda was loaded")
              : fmt::format("LD_LIBRARY_PATH names {}", fmt::join(facts.stub_folders, ", ")),
          "the driver's libcuda alone",
          "remove the toolkit's folder \"stubs\" from LD_LIBRARY_PATH: programs that load its "
          "libcuda see no GPU, and CUPTI fails"};
}

Check check_library(const LibraryFact& library, const MachineFacts& facts) {
  Check check{"library-" + library.id, CheckStatus::kOk, "", "", ""};
  const bool gpu_usable = usable(facts);
  if (library.path) {
    check.found = *library.path;
    if (library.id == "cuda" && judge_driver(facts.driver).state == DriverState::kStub) {
      check.status = CheckStatus::kFail;
      check.found += ": a stub, which is for linking only";
      check.expected = "the driver's libcuda.so.1";
      check.advice = "take this file's folder from LD_LIBRARY_PATH and the loader's configuration";
      return check;
    }
    if (library.id != "nvml" || facts.nvml_problem.empty()) return check;
    check.status = gpu_usable || !facts.gpus.empty() ? CheckStatus::kFail : CheckStatus::kWarn;
    check.found += ": " + facts.nvml_problem;
    check.expected = "an answer from the driver";
    check.advice =
        "if versions differ, the kernel module is older than the libraries: reboot, or load the "
        "module again; else look at nvidia-smi";
    return check;
  }
  // Without a usable GPU nothing opens it.
  check.status = gpu_usable ? CheckStatus::kFail : CheckStatus::kWarn;
  check.found = fmt::format("{} does not open", library.name.file);
  check.expected = fmt::format("{}, for {}", library.name.file, library.name.purpose);
  check.advice = library.problem;
  return check;
}

constexpr double kGeneration4 = 16;  // GT/s of a lane
constexpr int kFullWidth = 16;

Check check_link(const GpuSlot& gpu) {
  Check check{"gpu-link " + gpu.bus_id, CheckStatus::kUnknown, "the system does not say", "", ""};
  if (!gpu.speed_max || !gpu.width || !gpu.width_max) return check;
  check.found = fmt::format("x{} of x{}, {:g} of {:g} GT/s now", *gpu.width, *gpu.width_max,
                            gpu.speed.value_or(0), *gpu.speed_max);
  if (!gpu.speed) check.found = fmt::format("x{} of x{}", *gpu.width, *gpu.width_max);
  check.status = CheckStatus::kWarn;
  check.expected = "x16 at 16 GT/s (PCIe 4.0) or more";
  if (*gpu.width < kFullWidth) {
    check.advice = *gpu.width < *gpu.width_max
                       ? "move the GPU to a slot with x16, free lanes that a neighbour takes, or "
                         "reseat it: every copy takes longer in proportion"
                       : "the GPU has no more lanes: offload less (a larger update_interval)";
  } else if (*gpu.speed_max < kGeneration4) {
    check.advice =
        "GPU or slot are of an old PCIe generation: offload less (a larger "
        "update_interval, a smaller topk_ratio)";
  } else if (gpu.speed && *gpu.speed < *gpu.speed_max) {
    check.advice =
        "an idle GPU lowers its link's speed: look again under load; if it stays, set "
        "the slot's speed in the firmware's setup";
    check.expected = fmt::format("{:g} GT/s under load", *gpu.speed_max);
  } else {
    return {check.id, CheckStatus::kOk, check.found, "", ""};
  }
  return check;
}

Check check_gpu_node(const GpuSlot& gpu, const MachineFacts& facts) {
  Check check{"gpu-numa " + gpu.bus_id, CheckStatus::kOk, "", "", ""};
  if (facts.numa_cpus.size() <= 1) {
    check.found = "one NUMA node";
    return check;
  }
  if (!gpu.numa_node || !facts.numa_cpus.contains(*gpu.numa_node)) {
    check.status = CheckStatus::kUnknown;
    check.found = "the firmware names no node";
    return check;
  }
  const std::vector<int>& near = facts.numa_cpus.at(*gpu.numa_node);
  const auto own = std::count_if(
      facts.allowed_cpus.begin(), facts.allowed_cpus.end(),
      [&](int cpu) { return std::find(near.begin(), near.end(), cpu) != near.end(); });
  check.found = fmt::format("node {}; {} of this process's {} CPUs are there", *gpu.numa_node, own,
                            facts.allowed_cpus.size());
  if (own > 0) return check;
  check.status = CheckStatus::kWarn;
  check.expected = fmt::format("CPUs of node {}", *gpu.numa_node);
  check.advice = fmt::format(
      "start with numactl --cpunodebind={0} --membind={0}, or DeepSpeed's "
      "--bind_cores_to_rank: memory of a remote node is slower for copies "
      "and for the CPU optimizer",
      *gpu.numa_node);
  return check;
}

Check check_cupti(const MachineFacts& facts) {
  Check check{"cupti-free", CheckStatus::kOk, "no other tool seen", "", ""};
  const bool held = facts.cupti_subscription == kCuptiHeld;
  if (held || !facts.tracing_tools.empty()) {
    check.status = held ? CheckStatus::kFail : CheckStatus::kWarn;
    check.found = held ? "another tool holds CUPTI" : "signs of another tool";
    if (!facts.tracing_tools.empty()) {
      check.found += fmt::format(" ({})", fmt::join(facts.tracing_tools, ", "));
    }
    check.expected = "no profiler or debugger around the program that records";
    check.advice =
        "run without nsys, ncu, compute-sanitizer, cuda-gdb or a PyTorch profiler in "
        "the process, or record with that tool and import its file";
  } else if (!facts.cupti_subscription) {
    check.status = CheckStatus::kUnknown;
    check.found = "no usable GPU, so CUPTI was not asked";
  } else if (*facts.cupti_subscription != 0) {
    check.status = CheckStatus::kFail;
    check.found = fmt::format("cuptiSubscribe fails with {}", *facts.cupti_subscription);
    check.expected = "0";
    check.advice = "use the CUPTI of the toolkit that this build names (check library-cupti)";
  }
  return check;
}

Check check_counters(const MachineFacts& facts) {
  Check check{"gpu-counters", CheckStatus::kOk, "open to all users", "", ""};
  if (!facts.counters_for_root_only) {
    check.status = CheckStatus::kUnknown;
    check.found = "no NVIDIA kernel module";
  } else if (*facts.counters_for_root_only && facts.is_root) {
    check.found = "for root alone, and this is root";
  } else if (*facts.counters_for_root_only) {
    check.status = CheckStatus::kWarn;
    check.found = "refused: for root alone (RmProfilingAdminOnly: 1)";
    check.expected = "RmProfilingAdminOnly: 0, for profilers that read counters (ncu)";
    check.advice =
        "load the module with NVreg_RestrictProfilingToAdminUsers=0, or run as root; "
        "recording kernels and copies does not need counters";
  }
  return check;
}

}  // namespace

std::vector<Check> check_gpu(const MachineFacts& facts, GpuNeed need) {
  std::vector<Check> checks = {check_driver(facts, need), check_stub(facts)};
  for (const LibraryFact& library : facts.libraries) {
    checks.push_back(check_library(library, facts));
  }
  if (facts.gpus.empty()) {
    checks.push_back({"gpu-link", CheckStatus::kUnknown, "no NVIDIA GPU on PCI", "", ""});
  }
  for (const GpuSlot& gpu : facts.gpus) {
    checks.push_back(check_link(gpu));
    checks.push_back(check_gpu_node(gpu, facts));
  }
  checks.push_back(check_cupti(facts));
  checks.push_back(check_counters(facts));
  return checks;
}

}  // namespace zenflow::runtime
