/// Any bytes as a DeepSpeed configuration: settings within their limits, or an input error.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/error.h"
#include "sim/deepspeed/ds_config.h"
#include "sim/deepspeed/ds_document.h"
#include "sim/deepspeed/lint.h"
#include "tests/fuzz/check_tree.h"

namespace {

/// The linter takes every document, and what it writes is JSON with nothing left to fix.
void check_fixed(const zenflow::sim::DsDocument& document) {
  using zenflow::fuzz::require;
  const zenflow::sim::LintOptions options{.notes = true};
  const std::string fixed = zenflow::sim::render_json(zenflow::sim::fix(document, options).root);
  const zenflow::sim::DsDocument written = zenflow::sim::parse_ds_document(fixed, "fixed.json");
  require(written.comments.empty() && written.uses.empty(), "what is written is JSON");
  require(zenflow::sim::render_json(written.root) == fixed, "it is read as it was written");
  for (const zenflow::sim::Finding& finding : zenflow::sim::lint(written, options)) {
    require(!finding.fixable, "nothing is left to fix");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using zenflow::fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const zenflow::sim::DsDocument document =
        zenflow::sim::parse_ds_document(text, "ds_config.json");
    check_fixed(document);
    const zenflow::sim::DeepSpeedConfig config = zenflow::sim::read_deepspeed_config(document.root);
    require(config.zero_stage >= 0 && config.zero_stage <= 3, "the ZeRO stage is 0 to 3");
    require(!(config.bf16 && config.fp16), "one 16-bit type at most");
    require(config.gradient_accumulation_steps >= 1, "at least one micro step");
    require(config.reduce_bucket_size > 0 && config.sub_group_size >= 0, "buckets hold elements");
    if (config.zenflow) {
      require(config.zenflow->topk_ratio > 0 && config.zenflow->topk_ratio < 1,
              "topk_ratio is a share");
      require(config.zenflow->update_interval.value_or(1) >= 1, "a window has a step");
      require(config.zenflow->select_interval.value_or(0) >= 0, "select_interval counts steps");
      require(config.zenflow->pt_reserved_cores_perc >= 0 &&
                  config.zenflow->pt_reserved_cores_perc <= 1,
              "pt_reserved_cores_perc is a share");
    }
  } catch (const zenflow::Error& error) {
    require(error.kind() == zenflow::ErrorKind::kInput, "bad text is bad input");
  }
  return 0;
}
