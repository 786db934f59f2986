#include "runtime/train/run_identity.h"

#include <sstream>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::runtime {

std::string run_identity(const TrainOptions& options, const ParameterTable& table,
                         const Fingerprint& data) {
  const OffloadSettings& s = options.offload;
  std::string text;
  const auto line = [&](std::string_view key, const auto& value) {
    text += fmt::format("{}: {}\n", key, value);
  };
  line("parameters", table.elements());
  line("tensors", table.parameters.size());
  line("dtype", options.dtype == ElementType::kBfloat16 ? "bf16" : "fp32");
  line("task", options.task.empty() ? "language modelling" : options.task);
  line("data bytes", data.bytes);
  line("data checksum", data.crc);
  line("validation fraction", options.feed.validation_fraction);
  line("micro-batch size", options.feed.sequences);
  line("sequence length", options.feed.length);
  line("seed", options.seed);
  line("schedule", static_cast<int>(options.schedule));
  line("topk_ratio", s.topk_ratio);
  line("update_interval",
       s.adaptive_interval ? std::string("auto") : std::to_string(s.update_interval));
  line("select_interval", s.select_interval);
  line("full_warm_up_rounds", s.full_warm_up_rounds);
  line("overlap_step", s.overlap_step);
  line("column norm", s.norm == NormKind::kL1 ? "l1" : "l2");
  line("accumulation on the device", s.accumulate_on_device);
  line("deferred scaling", static_cast<int>(s.deferred_scaling));
  line("gradient clipping", s.gradient_clipping);
  line("betas", fmt::format("{} {}", s.adamw.beta1, s.adamw.beta2));
  line("epsilon", s.adamw.epsilon);
  line("weight decay", s.adamw.weight_decay);
  return text;
}

void check_identity(const std::string& saved, const std::string& here,
                    const std::filesystem::path& checkpoint) {
  if (saved == here) return;
  std::istringstream before(saved);
  std::istringstream now(here);
  std::string differences;
  std::string a;
  std::string b;
  while (std::getline(before, a) && std::getline(now, b)) {
    if (a != b)
      differences += fmt::format("{}\"{}\", here \"{}\"", differences.empty() ? "" : "; ", a, b);
  }
  throw Error(ErrorKind::kInput,
              fmt::format("{}: it belongs to another run: {}", checkpoint.string(),
                          differences.empty() ? "other settings" : differences));
}

}  // namespace zenflow::runtime
