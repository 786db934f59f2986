#include <fmt/format.h>

#include "sim/tune/convergence.h"
#include "tools/tune/tune.h"

namespace zenflow::tools {

std::string convergence_text(const TuneAnswer& answer) {
  const sim::Setting& chosen = answer.chosen().setting;
  if (!chosen.zenflow()) return "";
  std::string text = fmt::format(
      "Convergence: nothing was measured of it on your job. Updates of deferred columns are up to "
      "{} steps late.\nMeasured elsewhere: {}; validation loss above synchronous AdamW's:\n",
      answer.chosen().evaluation.staleness, sim::kMeasuredWhere);
  for (const sim::MeasuredLoss& one : sim::kMeasuredLosses) {
    text += fmt::format("  topk_ratio {}, update_interval {}, {}, deferred scaling {}: {:+.2f} %\n",
                        one.topk_ratio, one.interval, one.task, one.scaling, one.excess);
  }
  text += fmt::format(
      "DeepSpeed scales nothing (none), zenflow-train by 0.75 unless told otherwise. From random "
      "weights it was {:+.1f} % (none) and {:+.1f} % (0.75).\n",
      sim::kExcessFromScratch, sim::kScaledExcessFromScratch);
  if (!sim::is_measured(chosen)) {
    text += fmt::format("topk_ratio {} with update_interval {} was measured nowhere.\n",
                        chosen.get(sim::Knob::kTopkRatio), chosen.interval());
  }
  if (!answer.loaded.request.is_staleness_asked) {
    text += fmt::format(
        "Settings that are more than {} steps late are not proposed unless you ask for them "
        "(--max-staleness).\n",
        answer.loaded.request.limits.staleness);
  }
  return text + "\n";
}

}  // namespace zenflow::tools
