#include "runtime/offload/deferred_columns.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "kernels/accumulate/accumulate.h"
#include "kernels/cast/cast.h"
#include "kernels/columns/columns.h"
#include "runtime/offload/selection.h"
#include "sim/base/large_array.h"

namespace zenflow::runtime {
namespace {

using kernels::Bf16;

// What a thread takes at once: long enough to stream, short enough to share out.
constexpr std::size_t kChunkElements = 1 << 16;

template <class E>
void convert(const float* from, std::size_t n, E* to) {
  if constexpr (std::is_same_v<E, float>) {
    std::copy_n(from, n, to);
  } else {
    kernels::to_bf16(from, n, to);
  }
}

void gather(std::span<const float> matrix, std::size_t width, std::span<const std::uint32_t> slots,
            std::vector<float>& out) {
  const std::size_t rows = width == 0 ? 0 : matrix.size() / width;
  out.resize(rows * slots.size());
  kernels::gather_columns(kernels::MatrixView<float>{matrix.data(), rows, width, width},
                          slots.data(), slots.size(), out.data());
}

/// Where [rows, width] of a matrix begins in an array.
struct Place {
  std::size_t first;
  std::size_t width;
};

/// Moves [rows, from.width] to [rows, to.width] of the same array: columns `kept` (ascending) of
/// the one come first in the other, zeros follow. The places may overlap. Towards lower addresses
/// rows go in order, towards higher ones in reverse, so that none is overwritten before it moves:
/// of first place and width both grow or neither does.
void move_rows(float* array, std::size_t rows, const Place& from, const Place& to,
               std::span<const std::uint32_t> kept) {
  const bool up = to.first > from.first || to.width > from.width;
  std::vector<float> passing(to.width, 0.0F);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t row = up ? rows - 1 - i : i;
    const float* source = array + from.first + row * from.width;
    for (std::size_t j = 0; j < kept.size(); ++j) passing[j] = source[kept[j]];
    std::copy(passing.begin(), passing.end(), array + to.first + row * to.width);
  }
}

/// By how much an update adds to a column's count: bias corrections speak of steps.
std::uint32_t counted(const DeferredUpdate& update) {
  return update.scaling == DeferredScaling::kNone ? 1U : static_cast<std::uint32_t>(update.steps);
}

/// After `count` steps, of which the last ones are this update's.
kernels::BiasCorrection correction_of(const DeferredUpdate& update, std::uint32_t count) {
  const kernels::AdamWSettings scaled = scaled_adamw(update.adamw, update.scaling, update.steps);
  // The moments have decayed as over single steps; the rate is the update's.
  kernels::AdamWSettings corrected = update.adamw;
  corrected.learning_rate = scaled.learning_rate;
  return kernels::bias_correction(corrected, count);
}

}  // namespace

DeferredColumns::DeferredColumns(const Layout& layout, ElementType type, Device& device,
                                 bool with_sums, bool double_sums, bool warm_up)
    : layout_(layout), type_(type), warm_up_(warm_up) {
  std::size_t crossing = 0;
  for (const Slice& slice : layout.slices) {
    widths_.push_back(slice.columns);
    crossing += slice.rows * (warm_up ? slice.columns : slice.most_deferred());
    updates_.emplace_back(slice.columns, 0U);
  }
  resting_.resize(layout.slices.size());
  pack();
  step_sizes_.resize(layout.slices.size());
  second_corrections_.resize(layout.slices.size());
  for (std::vector<float>* array : arrays()) fill_with_zeros(*array, layout.elements);
  staging_ = device.allocate(MemoryKind::kPinnedHost, crossing * bytes_per_element(type),
                             "deferred gradients");
  upload_ = device.allocate(MemoryKind::kPinnedHost, crossing * bytes_per_element(type),
                            "updated weights");
  for (int set = 0; set < (with_sums ? 1 + static_cast<int>(double_sums) : 0); ++set) {
    sums_.at(static_cast<std::size_t>(set)) =
        device.allocate(MemoryKind::kPinnedHost, crossing * sizeof(float), "gradient sums");
  }
}

void DeferredColumns::end_warm_up() {
  warm_up_ = false;
}

std::size_t DeferredColumns::offset(std::size_t slice) const {
  if (!warm_up_) return packed_[slice];
  return slice < layout_.slices.size() ? layout_.slices[slice].first : layout_.elements;
}
std::size_t DeferredColumns::group_offset(std::size_t group) const {
  return offset(layout_.groups[group].first_slice);
}
std::size_t DeferredColumns::group_elements(std::size_t group) const {
  const GroupRange& range = layout_.groups[group];
  return offset(range.first_slice + range.slices) - offset(range.first_slice);
}
std::byte* DeferredColumns::staging(std::size_t group) const {
  return staging_.data() + group_offset(group) * bytes_per_element(type_);
}
const std::byte* DeferredColumns::upload(std::size_t group) const {
  return upload_.data() + group_offset(group) * bytes_per_element(type_);
}

std::span<float> DeferredColumns::of_slice(std::vector<float>& array, std::size_t slice) {
  if (widths_[slice] == 0) return {};
  const Slice& s = layout_.slices[slice];
  return {array.data() + s.first, s.rows * widths_[slice]};
}
std::span<float> DeferredColumns::weights(std::size_t slice) {
  return of_slice(weights_, slice);
}
std::span<float> DeferredColumns::first_moment(std::size_t slice) {
  return of_slice(first_moment_, slice);
}
std::span<float> DeferredColumns::second_moment(std::size_t slice) {
  return of_slice(second_moment_, slice);
}

void DeferredColumns::release_if_empty() {
  if (std::any_of(widths_.begin(), widths_.end(), [](std::size_t width) { return width > 0; })) {
    return;
  }
  for (std::vector<float>* array : arrays()) std::vector<float>().swap(*array);
}

ColumnState DeferredColumns::narrow(std::size_t slice, std::span<const std::uint32_t> columns,
                                    ThreadPool& pool) {
  ColumnState state = take(slice, columns, nullptr, pool);
  change_width(slice, {.gone = std::vector(columns.begin(), columns.end())}, pool);
  return state;
}

void DeferredColumns::change_width(std::size_t slice, const WidthChange& change, ThreadPool& pool) {
  const auto all = arrays();
  pool.run(all.size(), [&](std::size_t i) { move_columns(slice, change, *all.at(i)); });
  set_width(slice, change);
}

void DeferredColumns::move_columns(std::size_t slice, const WidthChange& change,
                                   std::vector<float>& array) {
  const Slice& s = layout_.slices[slice];
  const std::vector<std::uint32_t> kept = slots_left(widths_[slice], change.gone);
  move_rows(array.data(), s.rows, {s.first, widths_[slice]}, {s.first, kept.size() + change.added},
            kept);
}

void DeferredColumns::set_width(std::size_t slice, const WidthChange& change) {
  const std::vector<std::uint32_t> kept = slots_left(widths_[slice], change.gone);
  const std::size_t width = kept.size() + change.added;
  std::vector<std::uint32_t> updates(width, 0U);
  for (std::size_t j = 0; j < kept.size(); ++j) updates[j] = updates_[slice][kept[j]];
  updates_[slice] = std::move(updates);
  widths_[slice] = width;
}

void DeferredColumns::pack() {
  packed_.assign(1, 0);
  for (const Slice& slice : layout_.slices) {
    packed_.push_back(packed_.back() + slice.rows * slice.deferred());
  }
}

void DeferredColumns::repack(std::span<const WidthChange> changes, std::optional<int> summed) {
  const std::vector<std::size_t> packed_before = packed_;
  pack();
  if (summed) move_sums(changes, packed_before, sums(*summed));
}

/// In place: all that stay close ranks, towards the first, and then make room, towards the last.
void DeferredColumns::move_sums(std::span<const WidthChange> changes,
                                std::span<const std::size_t> packed_before, float* sums) {
  std::vector<Place> close;
  std::size_t at = 0;
  for (std::size_t s = 0; s < changes.size(); ++s) {
    const std::size_t before = widths_[s] + changes[s].gone.size() - changes[s].added;
    const std::vector<std::uint32_t> kept = slots_left(before, changes[s].gone);
    const std::size_t rows = layout_.slices[s].rows;
    close.push_back({at, kept.size()});
    move_rows(sums, rows, {packed_before[s], before}, close.back(), kept);
    at += rows * kept.size();
  }
  for (std::size_t s = changes.size(); s-- > 0;) {
    move_rows(sums, layout_.slices[s].rows, close[s], {packed_[s], widths_[s]},
              slots_left(close[s].width, {}));
  }
}

std::vector<DeferredColumns::Chunk> DeferredColumns::chunks(std::size_t group) const {
  std::vector<Chunk> chunks;
  const GroupRange& range = layout_.groups[group];
  for (std::size_t s = range.first_slice; s < range.first_slice + range.slices; ++s) {
    if (widths_[s] == 0) continue;
    const std::size_t rows = layout_.slices[s].rows;
    const std::size_t step = std::max<std::size_t>(1, kChunkElements / widths_[s]);
    for (std::size_t row = 0; row < rows; row += step) {
      chunks.push_back({s, row, std::min(step, rows - row)});
    }
  }
  return chunks;
}

void DeferredColumns::accumulate(std::size_t group, int parity, bool first, float scale,
                                 ThreadPool& pool) {
  const std::size_t begin = group_offset(group);
  const std::size_t count = group_elements(group);
  float* sum = sums(parity) + begin;
  const std::byte* staged = staging(group);
  pool.run((count + kChunkElements - 1) / kChunkElements, [&](std::size_t chunk) {
    const std::size_t from = chunk * kChunkElements;
    const std::size_t n = std::min(kChunkElements, count - from);
    const auto add = [&](const auto* gradients) {
      first ? kernels::accumulate_first(sum + from, gradients + from, scale, n)
            : kernels::accumulate(sum + from, gradients + from, scale, n);
    };
    if (type_ == ElementType::kFloat32) {
      add(reinterpret_cast<const float*>(staged));
    } else {
      add(reinterpret_cast<const Bf16*>(staged));
    }
  });
}

void DeferredColumns::prepare_corrections(std::size_t slice, const DeferredUpdate& update) {
  std::vector<std::uint32_t>& updates = updates_[slice];
  for (std::uint32_t& count : updates) count += counted(update);
  for (const std::uint32_t slot : resting_[slice]) updates[slot] -= counted(update);
  std::vector<float>& sizes = step_sizes_[slice];
  std::vector<float>& seconds = second_corrections_[slice];
  sizes.resize(updates.size());
  seconds.resize(updates.size());
  kernels::BiasCorrection correction{};
  for (std::size_t i = 0; i < updates.size(); ++i) {
    if (i == 0 || updates[i] != updates[i - 1]) {
      correction = correction_of(update, updates[i]);
    }
    sizes[i] = correction.step_size;
    seconds[i] = correction.inverse_sqrt_correction2;
  }
}

template <class Grad, class Out>
void DeferredColumns::update_chunk(const Chunk& chunk, const DeferredUpdate& update,
                                   const Grad* gradients) {
  const std::size_t width = widths_[chunk.slice];
  const std::size_t inside = chunk.first_row * width;
  const std::size_t at = layout_.slices[chunk.slice].first + inside;
  const std::size_t packed = offset(chunk.slice) + inside;
  const kernels::AdamWState<float, float> state{weights_.data() + at, first_moment_.data() + at,
                                                second_moment_.data() + at};
  const kernels::AdamWSettings adamw = with_decay(
      scaled_adamw(update.adamw, update.scaling, update.steps), layout_.slices[chunk.slice].decays);
  Out* out = upload_.as<Out>() + packed;
  const std::vector<std::uint32_t>& updates = updates_[chunk.slice];
  const bool uniform = std::all_of(updates.begin(), updates.end(),
                                   [&](std::uint32_t count) { return count == updates[0]; });
  if (uniform) {  // the same bits, without reading corrections
    kernels::adamw(adamw, correction_of(update, updates[0]), update.scale, chunk.rows * width,
                   state, gradients + packed, out);
    return;
  }
  kernels::adamw_columns(adamw,
                         kernels::ColumnCorrections{step_sizes_[chunk.slice].data(),
                                                    second_corrections_[chunk.slice].data()},
                         update.scale, chunk.rows, width, state, gradients + packed,
                         kernels::ColumnScatter<Out>{out, width, nullptr});
}

DeferredColumns::Resting DeferredColumns::before_update(const Chunk& chunk) {
  Resting state;
  const std::vector<std::uint32_t>& slots = resting_[chunk.slice];
  if (slots.empty()) return state;
  const std::size_t width = widths_[chunk.slice];
  const std::array arrays = {weights(chunk.slice), first_moment(chunk.slice),
                             second_moment(chunk.slice)};
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    gather(arrays[i].subspan(chunk.first_row * width, chunk.rows * width), width, slots, state[i]);
  }
  return state;
}

void DeferredColumns::put_back(const Chunk& chunk, const Resting& state) {
  const std::vector<std::uint32_t>& slots = resting_[chunk.slice];
  if (slots.empty()) return;
  const std::size_t width = widths_[chunk.slice];
  const std::array arrays = {weights(chunk.slice), first_moment(chunk.slice),
                             second_moment(chunk.slice)};
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    kernels::scatter_columns(state[i].data(), chunk.rows, slots.size(), slots.data(),
                             arrays[i].data() + chunk.first_row * width, width);
  }
  store_upload(chunk.slice, chunk.first_row * width, chunk.rows * width);
}

void DeferredColumns::update(std::size_t group, const DeferredUpdate& update, ThreadPool& pool) {
  const GroupRange& range = layout_.groups[group];
  for (std::size_t s = range.first_slice; s < range.first_slice + range.slices; ++s) {
    if (widths_[s] > 0) prepare_corrections(s, update);
  }
  const std::vector<Chunk> work = chunks(group);
  pool.run(work.size(), [&](std::size_t i) {
    const Resting resting = before_update(work[i]);
    const bool sums = update.source == GradientSource::kSums;
    const auto run = [&](auto* out) {
      using Out = std::remove_pointer_t<decltype(out)>;
      if (sums) {
        update_chunk<float, Out>(work[i], update,
                                 sums_.at(static_cast<std::size_t>(update.parity)).as<float>());
      } else {
        update_chunk<Out, Out>(work[i], update, staging_.as<Out>());
      }
    };
    type_ == ElementType::kFloat32 ? run(upload_.as<float>()) : run(upload_.as<Bf16>());
    put_back(work[i], resting);
  });
  for (std::size_t s = range.first_slice; s < range.first_slice + range.slices; ++s) {
    resting_[s].clear();
  }
}

void DeferredColumns::store_upload(std::size_t slice, std::size_t first, std::size_t n) {
  const float* from = weights_.data() + layout_.slices[slice].first + first;
  const std::size_t to = offset(slice) + first;
  if (type_ == ElementType::kFloat32) {
    convert(from, n, upload_.as<float>() + to);
  } else {
    convert(from, n, upload_.as<Bf16>() + to);
  }
}

void DeferredColumns::refresh_upload(std::size_t group) {
  const GroupRange& range = layout_.groups[group];
  for (std::size_t s = range.first_slice; s < range.first_slice + range.slices; ++s) {
    if (widths_[s] > 0) store_upload(s, 0, layout_.slices[s].rows * widths_[s]);
  }
}

ColumnState DeferredColumns::take(std::size_t slice, std::span<const std::uint32_t> slots,
                                  const DeferredUpdate* update, ThreadPool& pool) {
  const std::size_t rows = layout_.slices[slice].rows;
  ColumnState state{.columns = slots.size()};
  const std::array from = {weights(slice), first_moment(slice), second_moment(slice)};
  const std::array to = {&state.weights, &state.first_moment, &state.second_moment};
  pool.run(to.size(), [&](std::size_t i) { gather(from[i], widths_[slice], slots, *to[i]); });
  for (const std::uint32_t slot : slots) state.updates.push_back(updates_[slice][slot]);
  if (update == nullptr) return state;

  std::vector<float> gradients;
  gather({sums(update->parity) + offset(slice), rows * widths_[slice]}, widths_[slice], slots,
         gradients);
  std::vector<float> sizes;
  std::vector<float> seconds;
  for (std::uint32_t& count : state.updates) {
    count += counted(*update);
    const kernels::BiasCorrection correction = correction_of(*update, count);
    sizes.push_back(correction.step_size);
    seconds.push_back(correction.inverse_sqrt_correction2);
  }
  kernels::adamw_columns(
      with_decay(scaled_adamw(update->adamw, update->scaling, update->steps),
                 layout_.slices[slice].decays),
      kernels::ColumnCorrections{sizes.data(), seconds.data()}, update->scale, rows, slots.size(),
      kernels::AdamWState<float, float>{state.weights.data(), state.first_moment.data(),
                                        state.second_moment.data()},
      gradients.data(), kernels::ColumnScatter<float>{});
  return state;
}

void DeferredColumns::put(std::size_t slice, std::span<const std::uint32_t> slots,
                          const ColumnState& state, bool rest, ThreadPool& pool) {
  const std::size_t rows = layout_.slices[slice].rows;
  const std::size_t width = widths_[slice];
  const std::size_t n = slots.size();
  const std::array from = {&state.weights, &state.first_moment, &state.second_moment};
  const std::array to = {weights(slice), first_moment(slice), second_moment(slice)};
  const std::size_t step = std::max<std::size_t>(1, kChunkElements / std::max<std::size_t>(1, n));
  pool.run((rows + step - 1) / step, [&](std::size_t chunk) {
    const std::size_t row = chunk * step;
    for (std::size_t i = 0; i < to.size(); ++i) {
      kernels::scatter_columns(from[i]->data() + row * n, std::min(step, rows - row), n,
                               slots.data(), to[i].data() + row * width, width);
    }
  });
  for (std::size_t i = 0; i < n; ++i) updates_[slice][slots[i]] = state.updates[i];
  if (rest) rest_once(slice, slots);
}

}  // namespace zenflow::runtime
