#include "runtime/offload/engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "kernels/cast/cast.h"
#include "runtime/offload/deferred_columns.h"
#include "sim/base/error.h"
#include "sim/base/stop.h"

namespace zenflow::runtime {
namespace {

/// Copied at once between two questions whether to stop.
constexpr std::size_t kMostCopied = std::size_t{64} << 20U;

std::size_t largest_parameter_bytes(const ParameterTable& table, ElementType type) {
  std::int64_t most = 0;
  for (const Parameter& parameter : table.parameters) {
    most = std::max(most, parameter.elements());
  }
  return static_cast<std::size_t>(most) * bytes_per_element(type);
}

KeptGradients kept_gradients(const OffloadSettings& settings, int ranks) {
  if (settings.gradient_accumulation_steps == 1) return KeptGradients::kNone;
  return ranks > 1 && settings.zero_stage == 2 ? KeptGradients::kOwned : KeptGradients::kAll;
}

}  // namespace

OffloadEngine::OffloadEngine(TrainableModel& model, ElementType type,
                             const OffloadSettings& settings, Device& device,
                             Communicator& communicator, Recorder& recorder)
    : model_(model),
      type_(type),
      settings_(settings),
      device_(device),
      communicator_(communicator),
      owners_(parameter_owners(model.parameters(), communicator.size())),
      layout_(make_layout(model.parameters(), settings.topk_ratio, settings.everything_on_device(),
                          communicator.rank(), communicator.size(), settings.topk_range,
                          settings.topk_is_global, settings.decays_vectors)),
      waits_(recorder.add_track("training thread", sim::TrackKind::kHost)),
      sum_track_(recorder.add_track("cpu sums", sim::TrackKind::kHost)),
      update_track_(recorder.add_track("cpu optimizer", sim::TrackKind::kHost)),
      warm_up_(settings.full_warm_up_rounds > 0),
      deferred_(layout_, type, device, settings.keeps_sums(), settings.overlap_step, warm_up_),
      columns_(model.parameters(), layout_, type, device, model,
               {.kept_gradients = kept_gradients(settings, communicator.size()),
                .second_weights = settings.overlap_step && !settings.everything_on_device(),
                .whole_step_gradients = settings.has_whole_step(),
                .device_sums = settings.sums_on_device(),
                .warm_up = warm_up_}),
      carrier_(columns_, device, settings.exchange_bytes),
      transfer_(device.allocate(MemoryKind::kPinnedHost,
                                largest_parameter_bytes(model.parameters(), type),
                                "loaded or written")),
      compute_(device.make_stream("compute")),
      d2h_(device.make_stream("d2h")),
      h2d_(device.make_stream("h2d")),
      rule_(settings, elements_by_group(true), static_cast<std::int64_t>(bytes_per_element(type)),
            settings.has_whole_step() ? 0 : columns_.packed.size()),
      sum_pool_({"optimizer", settings.sum_threads}),
      update_pool_({"optimizer", settings.optimizer_threads, settings.optimizer_cores}) {
  if (communicator.size() > 1) rule_.set_several_ranks();
  if (settings.topk_is_global) {
    ranked_ = ranked_matrices(model.parameters(), settings.topk_ratio);
  }
  for (const Slice& slice : layout_.slices) {
    device.expect(*compute_, slice.rows, slice.columns);
    importance_.push_back(
        {.parameter = slice.parameter, .columns = slice.columns, .selected = slice.selected});
  }
  for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
    std::size_t elements = 0;
    for_slices(g, [&](std::size_t s) { elements += layout_.slices[s].elements(); });
    device.expect_square_sums(*compute_, elements, layout_.groups[g].slices);
  }
  for (std::vector<Event>& events : newest_) events.resize(layout_.groups.size());
  window_.importance = importance_;
  window_.steps = warm_up_ ? 1 : settings_.update_interval;
  window_.topk_ratio = selection_.next_topk_ratio = settings_.topk_ratio;
  rule_.set_warm_up(elements_by_group(false));
  rule_.begin_window(warm_up_, window_.steps);
}

OffloadEngine::~OffloadEngine() = default;

std::vector<std::int64_t> OffloadEngine::elements_by_group(bool deferred_alone) const {
  std::vector<std::int64_t> elements(layout_.groups.size(), 0);
  for (std::size_t g = 0; g < elements.size(); ++g) {
    for_slices(g, [&](std::size_t s) {
      const Slice& slice = layout_.slices[s];
      const std::size_t columns = deferred_alone ? slice.deferred() : slice.columns;
      elements[g] += static_cast<std::int64_t>(slice.rows * columns);
    });
  }
  return elements;
}

void OffloadEngine::set_interval_policy(IntervalPolicy policy) {
  if (!settings_.interval_is_auto) {
    throw Error(ErrorKind::kInput, "an interval policy: the settings have a fixed update_interval");
  }
  interval_policy_ = std::move(policy);
}

void OffloadEngine::change_topk_ratio(double topk_ratio) {
  const std::optional<TopkRange>& range = settings_.topk_range;
  if (topk_ratio != settings_.topk_ratio && !(range && range->has(topk_ratio))) {
    throw Error(ErrorKind::kInput,
                range ? fmt::format("topk_ratio: expected a number from {} to {}, found {}",
                                    range->low, range->high, topk_ratio)
                      : fmt::format("topk_ratio: {} after {}: the settings have no topk_range",
                                    topk_ratio, settings_.topk_ratio));
  }
  selection_.next_topk_ratio = topk_ratio;
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
    const std::size_t element = bytes_per_element(type_);
    write_device(columns_.parameter(i), count * element, {Operation::kInitialWeights},
                 [&](std::span<std::byte> piece, std::size_t at) {
                   const float* from = weights[i].data() + at / element;
                   if (type_ == ElementType::kFloat32) {
                     std::memcpy(piece.data(), from, piece.size());
                   } else {
                     kernels::to_bf16(from, piece.size() / element,
                                      reinterpret_cast<kernels::Bf16*>(piece.data()));
                   }
                 });
  }
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    throw_if_stopped();
    const Slice& slice = layout_.slices[s];
    const std::vector<float>& from = weights[slice.parameter];
    std::copy_n(from.begin(), slice.elements(), deferred_.weights(s).begin());
  }
}

std::vector<float> OffloadEngine::from_device(const void* values, std::size_t count,
                                              ElementType type) {
  const std::size_t element = bytes_per_element(type);
  std::vector<float> result(count);
  read_device(values, count * element, {Operation::kExport},
              [&](std::span<const std::byte> piece, std::size_t at) {
                if (type == ElementType::kFloat32) {  // a piece may end within an element
                  std::memcpy(std::as_writable_bytes(std::span(result)).data() + at, piece.data(),
                              piece.size());
                } else {
                  kernels::to_float(reinterpret_cast<const kernels::Bf16*>(piece.data()),
                                    piece.size() / element, result.data() + at / element);
                }
              });
  return result;
}

void OffloadEngine::read_device(
    const void* data, std::size_t size, Label label,
    const std::function<void(std::span<const std::byte>, std::size_t)>& use) {
  const auto* const from = static_cast<const std::byte*>(data);
  const std::size_t most = std::min(transfer_.bytes(), kMostCopied);
  for (std::size_t at = 0; at < size; at += most) {
    throw_if_stopped();
    const std::size_t piece = std::min(size - at, most);
    device_.copy(*compute_, transfer_.data(), from + at, piece, CopyDirection::kDeviceToHost,
                 Traffic::kInitial, label);
    compute_->record().wait();
    use({transfer_.data(), piece}, at);
  }
}

void OffloadEngine::write_device(
    void* data, std::size_t size, Label label,
    const std::function<void(std::span<std::byte>, std::size_t)>& fill) {
  auto* const to = static_cast<std::byte*>(data);
  const std::size_t most = std::min(transfer_.bytes(), kMostCopied);
  for (std::size_t at = 0; at < size; at += most) {
    throw_if_stopped();
    const std::size_t piece = std::min(size - at, most);
    fill({transfer_.data(), piece}, at);
    device_.copy(*compute_, to + at, transfer_.data(), piece, CopyDirection::kHostToDevice,
                 Traffic::kInitial, label);
    compute_->record().wait();
  }
}

std::vector<std::vector<float>> OffloadEngine::weights(bool master) {
  wait_for_lane(update_lane_, update_lane_.last(), nullptr);
  if (!overlaps()) wait_for_uploads(true);
  if (communicator_.size() > 1 && !master) {
    for (std::size_t g = 0; g < layout_.groups.size(); ++g) gather_weights(g);
  }
  std::vector<std::vector<float>> result;
  for (std::size_t i = 0; i < columns_.table.parameters.size(); ++i) {
    result.push_back(from_device(columns_.parameter(i),
                                 static_cast<std::size_t>(columns_.table.parameters[i].elements()),
                                 type_));
  }
  if (!master) return result;
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    const Slice& slice = layout_.slices[s];
    float* to = result[slice.parameter].data();
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
  for (std::size_t i = 0; i < result.size(); ++i) communicator_.share(owners_[i], result[i]);
  return result;
}

std::span<const void* const> OffloadEngine::device_weights() {
  if (!overlaps()) wait_for_uploads(false);
  if (communicator_.size() > 1) {
    for (std::size_t g = 0; g < layout_.groups.size(); ++g) gather_weights(g);
  }
  return columns_.weights();
}

std::span<const float> OffloadEngine::column_norms(std::size_t slice) const {
  return {columns_.norms.on_host() + columns_.column_first[slice], layout_.slices[slice].columns};
}

}  // namespace zenflow::runtime
