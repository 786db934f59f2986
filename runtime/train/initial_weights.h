/// What a run begins with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/model_config/transformer_config.h"
#include "sim/base/thread_pool.h"

namespace zenflow::runtime {

/// fp32 by parameter, row-major: of `file`, or by `seed` what there is no file for, which `pool`
/// draws. `note` is told what a file does not have and need not. Throws as WeightFile, and
/// Error(kInput) with tensor and element at nan and infinity: training could only fail, and would
/// name another parameter.
[[nodiscard]] std::vector<std::vector<float>> initial_weights(
    const TransformerConfig& config, const ParameterTable& table,
    const std::optional<std::filesystem::path>& file, std::uint64_t seed, ThreadPool& pool,
    const std::function<void(const std::string&)>& note);

}  // namespace zenflow::runtime
