#include "runtime/gpu/driver.h"

#include <cctype>
#include <sstream>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

// cudaError_t. By number: this file is also built where there is no CUDA.
constexpr int kStubLibrary = 34;
constexpr int kInsufficientDriver = 35;
constexpr int kNoDeviceError = 100;

std::string driver_text(const DriverAnswer& answer) {
  if (answer.supports == 0 && !answer.release) return "no driver";
  std::string text = "driver";
  if (answer.release) text += " " + *answer.release;
  text += answer.supports > 0 ? fmt::format(" (CUDA up to {})", cuda_version_text(answer.supports))
                              : " without its library libcuda.so.1";
  return text;
}

std::string required_text(const DriverAnswer& answer) {
  const int branch = required_driver(answer.built_with);
  const std::string cuda = "CUDA " + cuda_version_text(answer.built_with);
  if (branch == 0) return fmt::format("a driver for {}", cuda);
  return fmt::format("driver {} or newer, for {}", branch, cuda);
}

DriverState state_of(const DriverAnswer& answer) {
  if (answer.built_with == 0) return DriverState::kNotBuilt;
  switch (answer.status) {
    case 0:
      return answer.devices > 0 ? DriverState::kUsable : DriverState::kNoDevice;
    case kStubLibrary:
      return DriverState::kStub;
    case kInsufficientDriver:
      // CUDA says the same of a driver that is too old and of one that is not there.
      return answer.supports == 0 ? DriverState::kNoDriver : DriverState::kTooOld;
    case kNoDeviceError:
      return DriverState::kNoDevice;
    default:
      return DriverState::kFailed;
  }
}

}  // namespace

int required_driver(int cuda_version) {
  switch (cuda_version / 1000) {
    case 11:
      return 450;
    case 12:
      return 525;
    case 13:
      return 580;
    default:
      return 0;
  }
}

std::string cuda_version_text(int cuda_version) {
  return fmt::format("{}.{}", cuda_version / 1000, cuda_version % 1000 / 10);
}

DriverVerdict judge_driver(const DriverAnswer& answer) {
  DriverVerdict verdict{state_of(answer), driver_text(answer), {}, {}};
  if (verdict.state != DriverState::kNotBuilt) verdict.expected = required_text(answer);
  switch (verdict.state) {
    case DriverState::kUsable:
      verdict.found += fmt::format(", {} GPU{}", answer.devices, answer.devices == 1 ? "" : "s");
      break;
    case DriverState::kNotBuilt:
      verdict.found += "; this build has no CUDA in it";
      verdict.expected = "a build with CUDA";
      verdict.advice = "install the CUDA toolkit and build again with -DZENFLOW_CUDA=ON";
      break;
    case DriverState::kNoDriver:
      verdict.advice = "install NVIDIA's driver; in a container, start it with access to the GPUs";
      break;
    case DriverState::kTooOld:
      verdict.advice = "upgrade the driver, or build with the CUDA that it supports";
      break;
    case DriverState::kStub:
      verdict.found = "a stub libcuda, which is for linking only";
      verdict.advice = "remove the folder \"stubs\" of the CUDA toolkit from LD_LIBRARY_PATH";
      break;
    case DriverState::kNoDevice:
      verdict.found += ", but no GPU";
      verdict.advice = "check CUDA_VISIBLE_DEVICES and nvidia-smi";
      break;
    case DriverState::kFailed:
      verdict.found += fmt::format(", CUDA error {} ({})", answer.status, answer.error);
      verdict.advice = "look at nvidia-smi and the kernel's log (dmesg) for the GPU's state";
      break;
  }
  return verdict;
}

void require_gpu(const DriverAnswer& answer, const std::string& what) {
  const DriverVerdict verdict = judge_driver(answer);
  if (verdict.state == DriverState::kUsable) return;
  throw Error(ErrorKind::kDevice, fmt::format("{}: found {}, required: {}; {}", what, verdict.found,
                                              verdict.expected, verdict.advice));
}

void require_gpu_number(const DriverAnswer& answer, int number, const std::string& flag) {
  if (number >= 0 && number < answer.devices) return;
  throw Error(ErrorKind::kInput,
              fmt::format("{} {}: expected a visible GPU, of which there {}", flag, number,
                          answer.devices == 1 ? "is one, 0"
                                              : fmt::format("are {}, 0 to {}", answer.devices,
                                                            answer.devices - 1)));
}

std::optional<std::string> driver_release(const std::string& proc_version) {
  const std::size_t at = proc_version.find("Kernel Module");
  if (at == std::string::npos) return std::nullopt;
  std::istringstream words(proc_version.substr(at));
  for (std::string word; words >> word;) {
    const bool is_release = word.find_first_not_of("0123456789.") == std::string::npos &&
                            std::isdigit(static_cast<unsigned char>(word[0])) != 0 &&
                            word.find('.') != std::string::npos;
    if (is_release) return word;
  }
  return std::nullopt;
}

}  // namespace zenflow::runtime
