#include <fmt/format.h>

#include "runtime/doctor/check.h"
#include "sim/base/quantity_text.h"

namespace zenflow::runtime {
namespace {

Check unsaid(const char* id) {
  return {id, CheckStatus::kUnknown, "the system does not say", "", ""};
}

Check check_locking(const MachineFacts& facts) {
  if (!facts.lock_limit) return unsaid("memlock");
  if (!facts.lock_limit->bytes) return {"memlock", CheckStatus::kOk, "unlimited", "", ""};
  const std::uint64_t limit = *facts.lock_limit->bytes;
  if (facts.memory && limit >= *facts.memory) {
    return {"memlock", CheckStatus::kOk, size_text(limit), "", ""};
  }
  return {"memlock", CheckStatus::kWarn, size_text(limit),
          "unlimited, for locked optimizer and NVMe buffers",
          "ulimit -l unlimited, \"memlock unlimited\" in /etc/security/limits.conf, or --ulimit "
          "memlock=-1 for a container"};
}

Check check_shared_memory(const MachineFacts& facts) {
  // Docker gives 64 MiB. NCCL's buffers between the processes of one node take some MiB for each
  // pair of GPUs, and loaders of training data more.
  constexpr std::uint64_t kEnough = std::uint64_t{1} << 30;
  if (!facts.shared_memory) return unsaid("shared-memory");
  if (*facts.shared_memory >= kEnough) {
    return {"shared-memory", CheckStatus::kOk, "/dev/shm of " + size_text(*facts.shared_memory), "",
            ""};
  }
  return {"shared-memory", CheckStatus::kWarn, "/dev/shm of " + size_text(*facts.shared_memory),
          size_text(kEnough) + " or more, for communication between processes",
          "--shm-size or --ipc=host for a container; mount -o remount,size=8G /dev/shm"};
}

Check check_capacity(const MachineFacts& facts) {
  if (!facts.memory) return unsaid("memory");
  std::string found = size_text(*facts.memory);
  if (facts.memory_available)
    found += fmt::format(", {} available", size_text(*facts.memory_available));
  if (!facts.memory_limit) return {"memory", CheckStatus::kOk, found, "", ""};
  return {"memory", CheckStatus::kWarn,
          fmt::format("{} of {} (a control group's limit)", size_text(*facts.memory_limit),
                      size_text(*facts.memory)),
          "all of the machine's",
          "raise the container's or job's memory limit: offloaded optimizer state takes 16 bytes a "
          "parameter and more"};
}

}  // namespace

std::vector<Check> check_memory(const MachineFacts& facts) {
  return {check_locking(facts), check_shared_memory(facts), check_capacity(facts)};
}

}  // namespace zenflow::runtime
