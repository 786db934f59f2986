/// Saving and restoring everything that the next step depends on.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "runtime/offload/engine.h"
#include "runtime/offload/saved_state.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

/// With a topk_range: the ratio at hand, and the one that the next window's end brings.
struct TopkRatios {
  double now;
  double next;
};

template <class T>
std::span<const std::byte> bytes(const T* values, std::size_t count) {
  return std::as_bytes(std::span(values, count));
}

}  // namespace

// Where an array lives decides how it is read; its name and length are the same both ways, and with
// any number of ranks.
template <class Visit>
void OffloadEngine::for_each_array(bool with_weights_of_others, Visit&& visit) {
  const std::size_t element = bytes_per_element(type_);
  for (std::size_t i = 0; i < columns_.table.parameters.size(); ++i) {
    if (!with_weights_of_others && owners_[i] != communicator_.rank()) continue;
    const Parameter& parameter = columns_.table.parameters[i];
    visit("weights/" + parameter.name, columns_.parameter(i),
          static_cast<std::size_t>(parameter.elements()) * element, Place::kDevice);
  }
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    const Slice& slice = layout_.slices[s];
    const std::string name = columns_.table.parameters[slice.parameter].name;
    const std::size_t width = deferred_.width(s);
    const std::size_t host = slice.rows * width * sizeof(float);
    const std::size_t device = slice.rows * (slice.columns - width) * sizeof(float);
    visit("deferred/weights/" + name, deferred_.weights(s).data(), host, Place::kHost);
    visit("deferred/first_moment/" + name, deferred_.first_moment(s).data(), host, Place::kHost);
    visit("deferred/second_moment/" + name, deferred_.second_moment(s).data(), host, Place::kHost);
    visit("deferred/updates/" + name, deferred_.updates(s).data(), width * sizeof(std::uint32_t),
          Place::kHost);
    const SelectedColumns selected = columns_.selected(s);
    visit("selected/weights/" + name, selected.state.parameters, device, Place::kDevice);
    visit("selected/first_moment/" + name, selected.state.first_moment, device, Place::kDevice);
    visit("selected/second_moment/" + name, selected.state.second_moment, device, Place::kDevice);
    visit("selected/updates/" + name, columns_.selected_updates[s].data(),
          (slice.columns - width) * sizeof(std::uint32_t), Place::kHost);
    ColumnSlots& slots = columns_.slots(s);
    visit("slots/selected/" + name, slots.selected.data(),
          slots.selected.size() * sizeof(std::uint32_t), Place::kHost);
    visit("slots/deferred/" + name, slots.deferred.data(),
          slots.deferred.size() * sizeof(std::uint32_t), Place::kHost);
    if (step_ > window_.first_step) {
      const bool on_device = settings_.sums_on_device();
      float* const sums = on_device ? columns_.sums.as<float>() : deferred_.sums(window_.parity);
      visit("sums/" + name, sums + deferred_.offset(s), host,
            on_device ? Place::kDevice : Place::kHost);
    }
    visit("window_importance/" + name, &window_.importance[s], sizeof(SliceImportance),
          Place::kHost);
  }
}

OffloadEngine::Totals OffloadEngine::totals() {
  std::array<double, 2> sums = {static_cast<double>(layout_.elements),
                                static_cast<double>(layout_.selected_elements())};
  communicator_.sum(sums);  // exact: below 2^53
  return {static_cast<std::int64_t>(sums[0]), static_cast<std::int64_t>(sums[1])};
}

void OffloadEngine::save(StateSink& sink) {
  for (CpuLane* lane : {&sum_lane_, &update_lane_}) wait_for_lane(*lane, lane->last(), nullptr);
  if (!overlaps()) wait_for_uploads(true);  // what overlaps is repeated by `restore`
  compute_->record().wait();
  const Totals of_all_ranks = totals();
  const SavedCounters counters{.step = step_,
                               .window_first_step = window_.first_step,
                               .window_steps = window_.steps,
                               .windows = window_.index,
                               .update_interval = settings_.update_interval,
                               .last_selection = selection_.last_step,
                               .parity = window_.parity,
                               .selected_done = selection_.done ? 1 : 0,
                               .warm_up = warm_up_ ? 1 : 0,
                               .pending_first_step = update_.first_step,
                               .pending_last_step = update_.last_step,
                               .elements = of_all_ranks.elements,
                               .selected_elements = of_all_ranks.selected_elements,
                               .element_bytes = static_cast<std::int64_t>(bytes_per_element(type_)),
                               .overlap_step = settings_.overlap_step ? 1 : 0,
                               .accumulate_on_device = settings_.accumulate_on_device ? 1 : 0};
  const auto add = [&](const std::string& name, std::span<const std::byte> values) {
    sink.begin(name, values.size());
    sink.append(values);
    sink.end();
  };
  if (communicator_.rank() == 0) {  // the same at all
    add("counters", bytes(&counters, 1));
    const TopkRatios ratios{settings_.topk_ratio, selection_.next_topk_ratio};
    if (settings_.topk_range) add("topk_ratios", bytes(&ratios, 1));
    const std::uint8_t from_all = selection_.from_all ? 1 : 0;
    if (settings_.topk_is_global) add("selected_from_all", bytes(&from_all, 1));
  }
  for_each_array(false, [&](const std::string& name, void* data, std::size_t size, Place place) {
    if (place == Place::kHost) {
      add(name, {static_cast<const std::byte*>(data), size});
      return;
    }
    sink.begin(name, size);
    read_device(data, size, {Operation::kCheckpoint, step_},
                [&](std::span<const std::byte> piece, std::size_t) { sink.append(piece); });
    sink.end();
  });
}

void OffloadEngine::restore(
    const std::function<std::span<const std::byte>(std::string_view)>& find) {
  const auto fetch = [&](const std::string& name, std::size_t size) {
    const std::span<const std::byte> found = find(name);
    if (found.size() == size) return found;
    throw Error(ErrorKind::kInput,
                fmt::format("checkpoint: {}: expected {} bytes, found {}: it belongs to another "
                            "model or other settings",
                            name, size, found.size()));
  };
  SavedCounters counters;
  std::memcpy(&counters, fetch("counters", sizeof counters).data(), sizeof counters);
  const auto require = [](std::string_view what, std::int64_t saved, std::int64_t here) {
    if (saved == here) return;
    throw Error(ErrorKind::kInput,
                fmt::format("checkpoint: {} was {}, is {} here", what, saved, here));
  };
  if (settings_.topk_range) {
    TopkRatios ratios;
    std::memcpy(&ratios, fetch("topk_ratios", sizeof ratios).data(), sizeof ratios);
    take_ratio(ratios.now);
    change_topk_ratio(ratios.next);
  }
  if (settings_.topk_is_global) {
    const auto from_all = std::to_integer<std::int64_t>(fetch("selected_from_all", 1)[0]);
    check_saved("selected_from_all", from_all, 0, counters.selected_done == 1 ? 1 : 0);
    selection_.from_all = from_all == 1;
    if (selection_.from_all) {
      take_widths([&](const std::string& name) { return find(name).size(); });
    }
  }
  const Totals of_all_ranks = totals();
  require("the number of parameters", counters.elements, of_all_ranks.elements);
  require("the number of selected parameters (topk_ratio)", counters.selected_elements,
          of_all_ranks.selected_elements);
  require("bytes per weight", counters.element_bytes,
          static_cast<std::int64_t>(bytes_per_element(type_)));
  require("overlap_step", counters.overlap_step, settings_.overlap_step ? 1 : 0);
  require("accumulation on the device", counters.accumulate_on_device,
          settings_.accumulate_on_device ? 1 : 0);
  if (!interval_policy_) {
    require("update_interval", counters.update_interval, settings_.update_interval);
  }
  check_saved(counters, settings_);
  const std::int64_t staleness =
      oldest_gradient(counters.update_interval, counters.update_interval);
  if (!settings_.everything_on_device() && staleness > settings_.max_staleness) {
    throw Error(ErrorKind::kInput,
                fmt::format("checkpoint: update_interval {} makes gradients up to {} steps old, "
                            "max_staleness is {}",
                            counters.update_interval, staleness, settings_.max_staleness));
  }
  step_ = counters.step;
  window_.first_step = counters.window_first_step;
  window_.steps = counters.window_steps;
  window_.index = counters.windows;
  settings_.update_interval = counters.update_interval;
  selection_.last_step = counters.last_selection;
  window_.parity = static_cast<int>(counters.parity);
  update_.first_step = counters.pending_first_step;
  update_.last_step = counters.pending_last_step;
  selection_.done = counters.selected_done != 0;
  if (counters.warm_up == 0 && warm_up_) {
    deferred_.end_warm_up();
    warm_up_ = false;
  }
  if (selection_.done) {
    for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
      const Slice& slice = layout_.slices[s];
      columns_.slots(s).selected.resize(slice.selected);
      columns_.slots(s).deferred.resize(slice.deferred());
      std::vector<std::uint32_t> leading(slice.selected);
      for (std::uint32_t i = 0; i < slice.selected; ++i) leading[i] = i;
      if (slice.selected > 0)
        (void)deferred_.narrow(s, leading, update_pool_);  // the shapes; values follow
    }
    deferred_.release_if_empty();
  }
  for_each_array(true, [&](const std::string& name, void* data, std::size_t size, Place place) {
    const std::span<const std::byte> found = fetch(name, size);
    if (size == 0) return;
    if (place == Place::kHost) {
      std::memcpy(data, found.data(), size);
      return;
    }
    write_device(data, size, {Operation::kCheckpoint, step_},
                 [&](std::span<std::byte> piece, std::size_t at) {
                   std::memcpy(piece.data(), found.data() + at, piece.size());
                 });
  });
  check_slots();
  check_counts();
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    if (selection_.done && layout_.slices[s].selected > 0) send_columns(s);
  }
  compute_->record().wait();
  rule_.begin_window(warm_up_ && window_.first_step < settings_.full_warm_up_rounds, window_.steps);
  // What was on its way up is sent again.
  if (update_.first_step >= 0) {
    submit_uploads(false, [this](std::size_t group) { deferred_.refresh_upload(group); });
  }
}

void OffloadEngine::take_ratio(double topk_ratio) {
  change_topk_ratio(topk_ratio);  // refuses what is out of range
  settings_.topk_ratio = window_.topk_ratio = topk_ratio;
  set_topk_ratio(layout_, topk_ratio);
  place_widths();
}

void OffloadEngine::take_widths(const std::function<std::size_t(const std::string&)>& saved) {
  for (Slice& slice : layout_.slices) {
    if (!slice.selectable) continue;
    const std::string name = "slots/selected/" + columns_.table.parameters[slice.parameter].name;
    slice.selected = saved(name) / sizeof(std::uint32_t);
    check_saved(name, static_cast<std::int64_t>(slice.selected), 1,
                static_cast<std::int64_t>(slice.most_selected));
  }
  check_saved("selected parameters", static_cast<std::int64_t>(layout_.selected_elements()), 0,
              static_cast<std::int64_t>(layout_.most_selected_elements));
  place_widths();
}

void OffloadEngine::place_widths() {
  deferred_.pack();
  columns_.place_slots();
  rule_.set_deferred(elements_by_group(true));
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    columns_.selected_updates[s].resize(layout_.slices[s].selected);
    importance_[s].selected = layout_.slices[s].selected;
  }
}

void OffloadEngine::check_counts() {
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    const Slice& slice = layout_.slices[s];
    const std::string& name = columns_.table.parameters[slice.parameter].name;
    check_saved_updates("deferred/updates/" + name, deferred_.updates(s), step_);
    check_saved_updates("selected/updates/" + name, columns_.selected_updates[s], step_);
    const SliceImportance& seen = window_.importance[s];
    const bool sums_are_possible = std::isfinite(seen.square_sum) && seen.square_sum >= 0 &&
                                   std::isfinite(seen.selected_square_sum) &&
                                   seen.selected_square_sum >= 0;
    if (seen.parameter == slice.parameter && seen.columns == slice.columns &&
        seen.selected == slice.selected && sums_are_possible) {
      continue;
    }
    throw Error(ErrorKind::kInput,
                fmt::format("checkpoint: window_importance/{}: expected sums of squares of {} "
                            "columns, {} of them selected, found {} and {} of {} and {}",
                            name, slice.columns, slice.selected, seen.square_sum,
                            seen.selected_square_sum, seen.columns, seen.selected));
  }
}

void OffloadEngine::check_slots() {
  for (std::size_t s = 0; selection_.done && s < layout_.slices.size(); ++s) {
    const ColumnSlots& slots = columns_.slots(s);
    std::vector<bool> seen(layout_.slices[s].columns, false);
    for (const auto* list : {&slots.selected, &slots.deferred}) {
      for (const std::uint32_t column : *list) {
        if (column >= seen.size() || seen[column]) {
          throw Error(ErrorKind::kInput,
                      fmt::format("checkpoint: the columns of {} are not a partition",
                                  columns_.table.parameters[layout_.slices[s].parameter].name));
        }
        seen[column] = true;
      }
    }
  }
}

}  // namespace zenflow::runtime
