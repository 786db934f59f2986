#include "runtime/doctor/check.h"

#include <iterator>

namespace zenflow::runtime {

const char* to_string(CheckStatus status) {
  switch (status) {
    case CheckStatus::kOk:
      return "ok";
    case CheckStatus::kWarn:
      return "warn";
    case CheckStatus::kFail:
      return "fail";
    case CheckStatus::kUnknown:
      return "unknown";
  }
  return "";
}

std::vector<Check> check_machine(const MachineFacts& facts, GpuNeed need) {
  std::vector<Check> checks = check_gpu(facts, need);
  for (std::vector<Check> more : {check_memory(facts), check_processors(facts)}) {
    checks.insert(checks.end(), std::make_move_iterator(more.begin()),
                  std::make_move_iterator(more.end()));
  }
  return checks;
}

}  // namespace zenflow::runtime
