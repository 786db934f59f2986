#include <memory>

#include <CLI/CLI.hpp>

#include "runtime/doctor/report.h"
#include "runtime/machine/gather.h"
#include "sim/base/error.h"
#include "tools/calibrate/calibrate.h"
#include "tools/environment.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

using runtime::Check;
using runtime::CheckStatus;
using runtime::GpuNeed;

struct DoctorOptions {
  std::string device = "cpu";
  bool json = false;
};

int examine(const DoctorOptions& options) {
  const GpuNeed need = options.device == "cuda" ? GpuNeed::kRequired : GpuNeed::kOptional;
  const runtime::MachineFacts facts =
      runtime::gather_facts({.environment = environment_variables()});
  const std::vector<Check> checks = runtime::check_machine(facts, need);
  print(options.json ? runtime::checks_json(checks, kVersion) : runtime::checks_text(checks));
  if (need == GpuNeed::kRequired) runtime::require_gpu(facts.driver, "--device cuda");
  return runtime::count(checks, CheckStatus::kFail) > 0 ? static_cast<int>(ErrorKind::kRuntime) : 0;
}

}  // namespace

void add_doctor(CLI::App& app, Command& chosen) {
  const auto options = std::make_shared<DoctorOptions>();
  CLI::App* command = app.add_subcommand(
      "doctor", "say what is here, missing, wrong or slow for offloaded training, and what to do");
  command->add_option("--device", options->device, "cuda: fail unless a GPU is usable")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print one document on standard output");
  command->callback([options, &chosen] { chosen = [options] { return examine(*options); }; });
}

}  // namespace zenflow::tools
