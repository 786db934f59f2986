/// Small checkpoints for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <numeric>
#include <span>
#include <vector>

#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/checkpoint/checkpoint_writer.h"

namespace zenflow::testing {

/// What a run would hold after `step`: all of it follows from the step.
struct ToyState {
  std::uint64_t step = 0;
  std::vector<float> weights;
  std::vector<std::int32_t> selected;

  ToyState(std::uint64_t at_step, std::size_t count) : step(at_step), weights(count), selected(5) {
    for (std::size_t i = 0; i < count; ++i) {
      weights[i] = static_cast<float>(at_step * 31 + i * 7 % 1000);
    }
    std::iota(selected.begin(), selected.end(), static_cast<std::int32_t>(at_step));
  }
  friend bool operator==(const ToyState&, const ToyState&) = default;

  void write(runtime::CheckpointWriter& writer) const {
    writer.add_text("schedule", "zenflow");
    writer.add_value("step", step);
    writer.add("weights", std::span(weights));
    writer.add("selected", std::span(selected));
    writer.add("empty", std::span<const double>());
  }
  static ToyState read(const std::filesystem::path& path) {
    runtime::CheckpointReader reader(path);
    ToyState state(reader.read_value<std::uint64_t>("step"), 0);
    state.weights = reader.read<float>("weights");
    state.selected = reader.read<std::int32_t>("selected");
    return state;
  }
};

}  // namespace zenflow::testing
