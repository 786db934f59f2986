#include "runtime/offload/engine.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kernels/cast/cast.h"
#include "runtime/offload/deferred_columns.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
OffloadEngine::OffloadEngine(TrainableModel& model, ElementType type,
                             const OffloadSettings& settings, Device& device,
                             Communicator& communicator, Recorder& recorder)
    : model_(model),
      type_(type),
      settings_(settings),
      device_(device),
      communicator_(communicator),
      layout_(make_layout(model.parameters(), settings.topk_ratio, settings.everything_on_device,
                          communicator.rank(), communicator.size())),
      waits_(recorder.add_track("training thread", sim::TrackKind::kHost)),
      sum_track_(recorder.add_track("cpu sums", sim::TrackKind::kHost)),
      update_track_(recorder.add_track("cpu optimizer", sim::TrackKind::kHost)),
      warm_up_(settings.full_warm_up_rounds > 0),
      deferred_(layout_, type, device,
                settings.overlap_step || settings.update_interval > 1 || settings.adaptive_interval,
                settings.overlap_step, warm_up_),
      columns_(model.parameters(), layout_, type, device, model,
               {.accumulates = settings.gradient_accumulation_steps > 1,
                .second_weights = settings.overlap_step && !settings.everything_on_device,
                .whole_step_gradients = whole_step(),
                .device_sums = settings.accumulate_on_device,
                .warm_up = warm_up_}),
      carrier_(columns_, device, settings.exchange_bytes),
      compute_(device.make_stream("compute")),
      d2h_(device.make_stream("d2h")),
      h2d_(device.make_stream("h2d")),
      arrived_(layout_.groups.size()),
      staging_free_(layout_.groups.size()),
      packed_free_(std::max<std::size_t>(2, layout_.groups.size())),
      sum_pool_(settings.sum_threads),
      update_pool_(settings.optimizer_threads, settings.optimizer_cores) {
  if (communicator.size() != 1) {
    throw Error(ErrorKind::kInput,
                fmt::format("{} ranks: this build trains on one", communicator.size()));
  }
  for (const Slice& slice : layout_.slices) {
    device.expect(*compute_, slice.rows, slice.columns);
    importance_.push_back(
        {.parameter = slice.parameter, .columns = slice.columns, .selected = slice.selected});
  }
  window_importance_ = importance_;
  window_steps_ = warm_up_ ? 1 : settings_.update_interval;
}

OffloadEngine::~OffloadEngine() = default;

void OffloadEngine::set_interval_policy(IntervalPolicy policy) {
  if (!settings_.adaptive_interval) {
    throw Error(ErrorKind::kInput, "an interval policy: the settings have a fixed update_interval");
  }
  interval_policy_ = std::move(policy);
}

void OffloadEngine::load_weights(std::span<const std::vector<float>> weights) {
  const ParameterTable& table = columns_.table;
  if (weights.size() != table.parameters.size()) {
    throw Error(ErrorKind::kInput, fmt::format("weights: expected {} tensors, found {}",
                                               table.parameters.size(), weights.size()));
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Parameter& parameter = table.parameters[i];
    const auto count = static_cast<std::size_t>(parameter.elements());
    if (weights[i].size() != count) {
      throw Error(ErrorKind::kInput, fmt::format("weights: {}: expected {} elements, found {}",
                                                 parameter.name, count, weights[i].size()));
    }
    const Buffer staged = device_.allocate(MemoryKind::kPinnedHost,
                                           count * bytes_per_element(type_), "initial weights");
    if (type_ == ElementType::kFloat32) {
      std::copy(weights[i].begin(), weights[i].end(), staged.as<float>());
    } else {
      kernels::to_bf16(weights[i].data(), count, staged.as<kernels::Bf16>());
    }
    device_.copy(*compute_, columns_.parameter(i), staged.data(), staged.bytes(),
                 CopyDirection::kHostToDevice, Traffic::kInitial, {"initial weights"});
    compute_->record().wait();
  }
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    const Slice& slice = layout_.slices[s];
    const std::vector<float>& from = weights[slice.parameter];
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(slice.row_begin * slice.columns),
                slice.elements(), deferred_.weights(s).begin());
  }
}

std::vector<float> OffloadEngine::from_device(const void* values, std::size_t count,
                                              ElementType type) {
  const Buffer staged =
      device_.allocate(MemoryKind::kPinnedHost, count * bytes_per_element(type), "export");
  device_.copy(*compute_, staged.data(), values, staged.bytes(), CopyDirection::kDeviceToHost,
               Traffic::kInitial, {"export"});
  compute_->record().wait();
  std::vector<float> result(count);
  if (type == ElementType::kFloat32) {
    std::copy_n(staged.as<float>(), count, result.begin());
  } else {
    kernels::to_float(staged.as<kernels::Bf16>(), count, result.data());
  }
  return result;
}

std::vector<std::vector<float>> OffloadEngine::weights(bool master) {
  wait_for_lane(update_lane_, update_lane_.last(), nullptr);
  if (!overlaps()) wait_for_uploads(true);
  std::vector<std::vector<float>> result;
  for (std::size_t i = 0; i < columns_.table.parameters.size(); ++i) {
    result.push_back(from_device(columns_.parameter(i),
                                 static_cast<std::size_t>(columns_.table.parameters[i].elements()),
                                 type_));
  }
  if (!master) return result;
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    const Slice& slice = layout_.slices[s];
    float* to = result[slice.parameter].data() + slice.row_begin * slice.columns;
    const std::size_t width = deferred_.width(s);
    const ColumnSlots& slots = columns_.slots(s);
    const auto scatter = [&](const float* from, std::size_t columns,
                             const std::vector<std::uint32_t>& column) {
      for (std::size_t row = 0; row < slice.rows; ++row) {
        for (std::size_t j = 0; j < columns; ++j) {
          to[row * slice.columns + (column.empty() ? j : column[j])] = from[row * columns + j];
        }
      }
    };
    if (width > 0) scatter(deferred_.weights(s).data(), width, slots.deferred);
    if (width == slice.columns) continue;
    const std::vector<float> selected = from_device(
        columns_.selected(s).state.parameters, slice.rows * slice.selected, ElementType::kFloat32);
    scatter(selected.data(), slice.selected, slots.selected);
  }
  return result;
}

std::span<const void* const> OffloadEngine::device_weights() {
  if (!overlaps()) wait_for_uploads(false);
  return columns_.weights();
}

std::span<const float> OffloadEngine::column_norms(std::size_t slice) const {
  return {columns_.norms.on_host() + columns_.column_first[slice], layout_.slices[slice].columns};
}

}  // namespace zenflow::runtime
