/// The offload rule of zenflow-train: a training step as a list of operations, in the order in
/// which they are issued. runtime/offload executes the lists, sim/schedule/live.cpp turns them into
/// tasks with durations.
///
/// A model's groups (embedding, blocks, head, in forward order) are moved one by one. Lanes are in
/// order; beyond that an operation waits for what it names: the newest ones issued of a kind, on a
/// group. One that has never been issued is not waited for.
///
///   compute      every micro-batch's forward and backward; in the last backward the norms of a
///                group's gradients, its selected columns gathered, its deferred ones packed
///   d2h          deferred gradients of a group, or at a window's end the sums of the device
///   training     waits for the norm of the whole gradient, which decides on clipping
///   cpu sums     add up what came down
///   compute      AdamW on selected columns
///   cpu update   AdamW on deferred columns, group by group, after a window
///   h2d          their weights up, and into their places
///
/// With micro-batches gradients add up on the device, with several ranks and ZeRO stage 2 on that
/// of their owner, and leave in the last backward. Sums and updates wait for the norm of the whole
/// gradient. With sums on the device nothing leaves in a step; a window's sums go down when its
/// last compute is done. Without overlap the next step's forward waits group by group for what is
/// uploaded; with overlap an upload goes into a second set of weights, which a window's end waits
/// for and makes current.
///
/// docs/training.md, "The rule", has the same in formulas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/operation.h"
#include "sim/offload/training_setup.h"

namespace zenflow::sim {

/// Bytes of an element of the gradient sums.
inline constexpr std::int64_t kSumBytes = 4;

/// What a window of `steps` steps moves over the link, in bytes, of a group or of all. With n
/// deferred elements of b bytes: down S n b, or 4 n where sums are on the device; up n b.
struct WindowBytes {
  std::int64_t down = 0;
  std::int64_t up = 0;
};
[[nodiscard]] WindowBytes window_bytes(const OffloadSetup& setup, std::int64_t steps,
                                       std::int64_t deferred_elements,
                                       std::int64_t bytes_per_element);

/// An operation on all groups at once.
inline constexpr std::int32_t kAllGroups = -1;

/// Names the newest operation of a kind on a group.
struct IssuedOperation {
  Operation kind = Operation::kUnknown;
  std::int32_t group = kAllGroups;

  friend bool operator==(const IssuedOperation&, const IssuedOperation&) = default;
};

/// The lane that an operation of the rule is issued on.
[[nodiscard]] LaneKind issuing_lane(Operation operation);

struct OffloadOperation : IssuedOperation {
  std::int64_t bytes = 0;   ///< over the link
  std::int32_t buffer = 0;  ///< kPackGradients, kGradientsDown: which of the device's it is in
  /// The newest ones of these, if there are any.
  std::span<const IssuedOperation> after{};
};

/// Lists are valid until the next call.
class OffloadRule {
 public:
  /// `deferred`: elements by group. `buffers`: of the device for gradients on their way down; 0:
  /// one for every group.
  OffloadRule(const OffloadSetup& setup, std::vector<std::int64_t> deferred,
              std::int64_t bytes_per_element, std::size_t buffers = 0);

  /// Gradients are summed over ranks, and weights come from those that have updated them.
  void set_several_ranks() { several_ranks_ = true; }
  /// With another topk_ratio.
  void set_deferred(std::vector<std::int64_t> deferred) { deferred_ = std::move(deferred); }
  /// All elements by group: for windows in warm-up.
  void set_warm_up(std::vector<std::int64_t> all) { all_ = std::move(all); }

  /// A window of `steps` steps; in `warm_up` of one, with everything deferred and no overlap.
  void begin_window(bool warm_up, std::int64_t steps);
  [[nodiscard]] bool overlaps() const { return setup_.overlap_step && !warm_up_; }
  [[nodiscard]] WindowSums sums() const { return sums_; }

  /// `first_of_window`: sums are begun. `ranks_columns`: norms of columns are measured.
  [[nodiscard]] std::span<const OffloadOperation> step(bool first_of_window, bool ranks_columns);
  /// At a window's end, one after the other: the device's sums come down;
  [[nodiscard]] std::span<const OffloadOperation> send_sums();
  /// with overlap the uploads of the update before become current: kCarrySelected waits for them;
  [[nodiscard]] std::span<const OffloadOperation> take_update();
  /// and the window's update is handed over.
  [[nodiscard]] std::span<const OffloadOperation> update();

  /// Whether an update has been handed over that take_update has not taken.
  [[nodiscard]] bool update_under_way() const { return update_under_way_; }

 private:
  [[nodiscard]] std::int64_t deferred(std::int32_t group) const;
  [[nodiscard]] std::int32_t groups() const { return static_cast<std::int32_t>(deferred_.size()); }
  void begin_list();
  OffloadOperation& add(Operation kind, std::int32_t group = kAllGroups);
  /// The operation that was added last waits for this.
  void wait_for(IssuedOperation issued);
  [[nodiscard]] std::span<const OffloadOperation> finish_list();
  void gradients_leave(std::int32_t group, bool ranks_columns);
  void sum(bool first_of_window);

  OffloadSetup setup_;
  std::vector<std::int64_t> deferred_;
  std::vector<std::int64_t> all_;  ///< deferred in warm-up
  std::int64_t width_;
  bool buffers_take_turns_;
  bool several_ranks_ = false;
  std::vector<IssuedOperation> sent_from_;  ///< by buffer: the copy that left it last
  std::size_t next_buffer_ = 0;
  bool warm_up_ = false;
  WindowSums sums_ = WindowSums::kNone;
  bool update_under_way_ = false;
  std::vector<IssuedOperation> uploads_;            ///< by group: of the newest update
  bool forward_waits_ = false;                      ///< for these
  Operation staging_reader_ = Operation::kUnknown;  ///< of what came down
  IssuedOperation last_sums_down_{};
  IssuedOperation last_compute_{};
  std::vector<OffloadOperation> operations_;
  std::vector<IssuedOperation> awaited_;
  std::vector<std::size_t> first_awaited_;  ///< by operation
};

}  // namespace zenflow::sim
