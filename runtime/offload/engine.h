/// The offload engine: trains a model on a device with the optimizer of the deferred columns on the
/// CPU. One engine for all schedules and devices; docs/training.md has the rule it follows.
///
/// Threads. The training thread calls `step`, enqueues on the compute and D2H streams and decides.
/// The sum lane adds up what arrives; the update lane runs the optimizer on its pool and enqueues
/// on the H2D stream. They meet at the ends of update windows, and by events and signals; none
/// polls.
///
///   window        |  w: S steps            |  w+1: S steps          |  w+2
///   compute       |fwd bwd sel|fwd bwd sel |fwd bwd sel|fwd bwd sel |(swapped) fwd ...
///   d2h             deferred columns, per group, in every backward
///   sum lane          + + + +    + + + +    + + + +   + + + +
///   update lane                            |update of w         |
///   h2d                                        per group|
///
/// With gradient_accumulation_steps a step has that many forward and backward passes. Their
/// gradients add up on the device, and leave it in the last backward.
///
/// Staleness of a gradient of step t: the number of steps that begin after it before the weights
/// contain it. Without overlap 0 .. S-1, with overlap S .. 2S-1, checked at every swap.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/device/device.h"
#include "runtime/offload/column_carrier.h"
#include "runtime/offload/cpu_lane.h"
#include "runtime/offload/deferred_columns.h"
#include "runtime/offload/device_columns.h"
#include "runtime/offload/global_selection.h"
#include "runtime/offload/settings.h"
#include "runtime/offload/trainable.h"
#include "runtime/trace/recorder.h"
#include "sim/base/thread_pool.h"
#include "sim/offload/offload_rule.h"

namespace zenflow::runtime {

/// Norms of one step's gradient on one matrix.
struct SliceImportance {
  std::size_t parameter = 0;
  double square_sum = 0;           ///< of the whole gradient
  double selected_square_sum = 0;  ///< of the columns that are selected
  std::size_t columns = 0;
  std::size_t selected = 0;
};

struct StepResult {
  std::int64_t step = 0;
  double loss = 0;
  double gradient_norm = 0;  ///< before clipping
  bool window_ended = false;
  std::int64_t window_steps = 0;  ///< S of the window the step belongs to
  bool selected_anew = false;
  std::size_t columns_exchanged = 0;  ///< that entered the selection
  std::optional<std::int64_t>
      staleness{};  ///< of the oldest gradient in what took effect, if anything did
  std::optional<std::int64_t> newest_staleness{};  ///< of the newest
  /// Bytes over the link so far, where a window ended: between two such counts lie the gradients of
  /// one window and the upload of one update, whatever the lanes are doing.
  std::optional<TrafficCount> window_traffic{};
  double waited_for_cpu = 0;  ///< seconds the training thread was blocked by the CPU lane
};

/// What a policy for update_interval: auto may look at when a window ends.
struct WindowObservation {
  std::int64_t window = 0;
  std::int64_t first_step = 0;   ///< of the window that ended
  std::int64_t steps = 0;        ///< S of it
  double topk_ratio = 0;         ///< k of it
  double next_topk_ratio = 0;    ///< of the window that begins
  std::int64_t timed_steps = 0;  ///< that the next two are of: fewer than `steps` after a restore
  double window_seconds = 0;     ///< in `step`; what happens between two steps is not training
  double waited_seconds = 0;     ///< of these, the training thread was blocked by the CPU
  double selection_seconds = 0;  ///< of these, columns were selected anew at its end
  std::int64_t norms_step = -1;  ///< of the column norms that the engine has; -1: it has none
  double update_seconds = 0;     ///< the CPU lane's last update; 0 if none has run
  std::vector<SliceImportance>
      importance;  ///< sums over the window's steps, by slice; of all ranks
};
/// Returns S of the next window. With several ranks all are asked, with the same observation, and
/// have to answer the same.
using IntervalPolicy = std::function<std::int64_t(const WindowObservation&)>;

class OffloadEngine {
 public:
  /// `model` and the rest must outlive the engine. Throws Error(kInfeasible) if memory is short.
  OffloadEngine(TrainableModel& model, ElementType type, const OffloadSettings& settings,
                Device& device, Communicator& communicator, Recorder& recorder);
  ~OffloadEngine();
  OffloadEngine(const OffloadEngine&) = delete;
  OffloadEngine& operator=(const OffloadEngine&) = delete;

  /// fp32 values by parameter, row-major. Before the first step.
  void load_weights(std::span<const std::vector<float>> weights);

  /// One step on the micro-batches that the model holds. Throws Error(kRuntime) naming the layer if
  /// a gradient is not finite, before any weight is touched; and what the CPU lane has thrown.
  /// After an exception the engine can only be destroyed.
  StepResult step();

  void set_learning_rate(double rate) { settings_.adamw.learning_rate = static_cast<float>(rate); }
  /// Asked at the end of every regular window but the first, and not when `settle` ends one. `step`
  /// throws Error(kRuntime) if it answers less than 1, or what would exceed max_staleness. Throws
  /// Error(kInput) unless the settings have interval_is_auto. Before `restore`.
  void set_interval_policy(IntervalPolicy policy);

  /// Another share of columns, at the end of the first regular window whose last step has not
  /// begun: columns are selected anew there, by that step's gradient, and those that change place
  /// take their state along. The ratio at hand: nothing will change. Between steps, or from the
  /// policy. Throws Error(kInput) if it is not in the settings' topk_range.
  void change_topk_ratio(double topk_ratio);

  /// Lets all that is under way take effect, an unfinished window included: for the end of a run.
  void settle();

  /// Weights as the next step would use them. The compute stream waits for what is on its way.
  [[nodiscard]] std::span<const void* const> device_weights();
  /// The same in fp32 by parameter. With `master`, where this rank keeps fp32 weights, those:
  /// meaningful after `settle`.
  [[nodiscard]] std::vector<std::vector<float>> weights(bool master);
  [[nodiscard]] Stream& compute() { return *compute_; }

  [[nodiscard]] std::int64_t steps_done() const { return step_; }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  /// The rank that updates each parameter, ascending.
  [[nodiscard]] std::span<const int> owners() const { return owners_; }
  [[nodiscard]] const OffloadSettings& settings() const { return settings_; }
  [[nodiscard]] const std::vector<SliceImportance>& last_importance() const { return importance_; }
  /// Column norms of the last gradient that they were measured of, by slice: with
  /// record_importance the last step's; else of matrices alone, for the last selection.
  [[nodiscard]] std::span<const float> column_norms(std::size_t slice) const;
  [[nodiscard]] const ColumnSlots& slots(std::size_t slice) { return columns_.slots(slice); }
  /// Bytes of the gradients that selections from all matrices would have needed so far, sent from
  /// their owners to all others, in place of norms. 0 on one rank.
  [[nodiscard]] std::uint64_t gradient_bytes_ranked() const { return gradient_bytes_ranked_; }

  /// Takes named arrays, one after the other, each in pieces.
  class StateSink {
   public:
    virtual ~StateSink() = default;
    /// An array of `bytes` follows.
    virtual void begin(const std::string& name, std::size_t bytes) = 0;
    /// The span is valid during the call alone.
    virtual void append(std::span<const std::byte> piece) = 0;
    virtual void end() = 0;
  };
  /// Gives `sink` everything that the next step depends on, of what this rank owns; all ranks save.
  /// Waits for the CPU lane. Takes no memory that grows with the model.
  void save(StateSink& sink);
  /// Takes state that `save` gave, by name: arrays of all ranks of then, of which there may have
  /// been another number. All ranks restore. Throws Error(kInput) if it is not this model's and
  /// these settings'. Before the first step.
  void restore(const std::function<std::span<const std::byte>(std::string_view)>& find);

 private:
  /// One update's way up. The CPU lane writes `done[g]`, then sets the signal of `issued[g]`;
  /// the signals belong to the lane's job, so a job that is dropped fails whoever waits.
  struct Uploads {
    explicit Uploads(std::size_t groups) : issued(groups), done(groups) {}

    std::vector<Event> issued;  ///< by group: the lane has enqueued its copies
    std::vector<Event> done;    ///< by group: they are on the device
  };

  /// The update that was handed over last.
  struct HandedOver {
    std::int64_t first_step = -1;  ///< of its window, until it is taken; -1: none overlaps
    std::int64_t last_step = -1;
    CpuLane::Ticket ticket = 0;
    std::shared_ptr<Uploads> uploads{};  ///< until all of them are in use
  };

  /// The window at hand.
  struct Window {
    std::int64_t index = 0;
    std::int64_t first_step = 0;
    std::int64_t steps = 1;                     ///< S of it
    double topk_ratio = 0;                      ///< k of it; the settings' is the layout's
    int parity = 0;                             ///< the sums that it writes
    std::int64_t timed_steps = 0;               ///< in this process
    double seconds = 0;                         ///< of those but the step at hand
    double waited = 0;                          ///< seconds of these
    double selection_seconds = 0;               ///< at its end
    std::vector<SliceImportance> importance{};  ///< sums over its steps
  };

  struct Selection {
    bool done = false;             ///< the first one has been made
    std::int64_t last_step = 0;    ///< after which columns were selected last
    std::int64_t norms_step = -1;  ///< of the norms on the host
    bool from_all = false;         ///< one has been from all matrices
    double next_topk_ratio = 0;    ///< that is wanted
  };

  /// What the operations of a step share.
  struct Step {
    StepResult* result = nullptr;  ///< none where a run ends between two steps
    bool selects_first = false;
    bool ranks_columns = false;
    std::size_t micro_batches = 0;  ///< begun
    float scale = 1;                ///< of its gradients, for clipping, when their norm is known
  };

  /// An operation that a CPU lane carries out, or enqueues, when what it waits for has happened.
  struct LaneOperation {
    sim::OffloadOperation operation;
    std::vector<Event> after;
    std::shared_ptr<Signal> done;
  };

  // engine_state.cpp
  enum class Place : std::uint8_t { kHost, kDevice };
  /// visit(name, address, bytes, place) of all arrays that a checkpoint has of what this rank owns,
  /// and of the weights that it does not.
  template <class Visit>
  void for_each_array(bool with_weights_of_others, Visit&& visit);
  struct Totals {
    std::int64_t elements;
    std::int64_t selected_elements;
  };
  /// Of all ranks, each of which asks.
  [[nodiscard]] Totals totals();
  // What a restored state holds is what a run can have.
  void check_slots();
  void check_counts();
  /// The ratio at hand in the state that is being restored.
  void take_ratio(double topk_ratio);
  /// Widths of the state that is being restored, where they vary: `saved`(name) bytes of an array.
  void take_widths(const std::function<std::size_t(const std::string&)>& saved);
  void place_widths();

  [[nodiscard]] std::vector<float> from_device(const void* values, std::size_t count,
                                               ElementType type);
  /// An array on the device, a piece at a time: calls use(piece, where it begins in the array).
  void read_device(const void* data, std::size_t size, Label label,
                   const std::function<void(std::span<const std::byte>, std::size_t)>& use);
  /// The way back: fill(piece, where it begins in the array) says what the piece shall hold.
  void write_device(void* data, std::size_t size, Label label,
                    const std::function<void(std::span<std::byte>, std::size_t)>& fill);

  // engine_step.cpp: the rule's operations are carried out
  StepResult run_step();
  void end_warm_up(StepResult& result);
  void execute(std::span<const sim::OffloadOperation> operations, Step& step);
  void compute(const sim::OffloadOperation& operation, Step& step);
  void send(const sim::OffloadOperation& operation);
  [[nodiscard]] std::vector<LaneOperation> handed_over(
      std::span<const sim::OffloadOperation> operations);
  void submit_sums(std::span<const sim::OffloadOperation> operations, float scale);
  void wait_on(Stream& stream, const sim::OffloadOperation& operation);
  /// Blocks a lane.
  static void wait_for(std::span<const Event> events) {
    for (const Event& event : events) event.wait();
  }
  /// When the newest of its kind on its group is done.
  [[nodiscard]] Event& newest(const sim::IssuedOperation& operation);
  /// Before a later micro-batch adds to them: gradients that are their owners' by now. Those that
  /// several groups add to, before the first of these.
  void clear_sent_gradients(std::size_t group);
  /// Collectives, on the compute stream: a group's gradients go to their owners, or its weights
  /// come from there.
  void reduce_gradients(std::size_t group);
  void gather_weights(std::size_t group);
  /// A group's, where `address`(parameter) says.
  template <class Address>
  [[nodiscard]] std::vector<OwnedTensor> owned_tensors(std::size_t g,
                                                       const Address& address) const {
    const ParameterGroup& group = columns_.table.groups[g];
    std::vector<OwnedTensor> tensors;
    for (std::size_t i = group.first; i < group.first + group.count; ++i) {
      tensors.push_back({owners_[i], address(i),
                         static_cast<std::size_t>(columns_.table.parameters[i].elements())});
    }
    return tensors;
  }
  void measure_gradients(std::size_t group);
  void rank_columns(std::size_t slice);
  void gather_selected(std::size_t group);
  void pack(std::size_t slice, std::byte* to);
  void gradients_have_left(Step& step);
  void check_gradients(Step& step);
  void update_selected(float scale);
  void check_lanes() const;
  /// Deferred gradients of a group, in a buffer of the rule.
  [[nodiscard]] std::byte* packed(std::size_t group, std::int32_t buffer) const;
  /// A slice's place in what crosses the link of its group.
  [[nodiscard]] std::size_t bytes_into_group(std::size_t slice, std::size_t group) const;
  /// Which columns of the slice are deferred, on the device; null: all in order.
  [[nodiscard]] const std::uint32_t* deferred_indices(std::size_t slice) const;

  // engine_selection.cpp
  void first_selection(std::size_t slice);
  [[nodiscard]] bool selection_due() const;
  [[nodiscard]] bool ratio_changes() const {
    return selection_.done && selection_.next_topk_ratio != settings_.topk_ratio;
  }
  /// What is due of the following two; both waited for norms to arrive. `flush`: of the window's
  /// sums, unless they have been applied.
  void select_anew(const DeferredUpdate* flush, StepResult& result);
  void exchange_columns(const DeferredUpdate* flush, StepResult& result);
  void change_selected(const DeferredUpdate* flush, StepResult& result);
  void select_from_all_matrices(const DeferredUpdate* flush, StepResult& result);
  /// By slice: what makes the largest columns of the whole model the selected ones.
  [[nodiscard]] std::vector<ColumnMoves> moves_of_all();
  /// Norms of all matrices' columns on all ranks, negative for those that are selected.
  [[nodiscard]] std::vector<float> norms_of_all();
  /// Of select_from_all_matrices, by slice: what leaves goes to the host, and what stays selected
  /// closes ranks at `at`. Returns how many slots that are.
  std::size_t take_leaving(std::size_t slice, const ColumnMoves& moves, std::size_t at);
  /// What stays, `kept` slots from `close` on, makes room for what enters.
  void give_entering(std::size_t slice, const ColumnMoves& moves, const ColumnCarrier::Place& close,
                     bool flushed);
  void send_columns(std::size_t slice);
  /// Copies selected columns into the second weights, which are about to be used.
  void refresh_selected();

  // engine_window.cpp: updates are handed over and taken in
  void end_window(Step& step);
  [[nodiscard]] DeferredUpdate window_update(float scale) const;
  void submit_update(const DeferredUpdate& update);
  /// The rule's update: `prepare` a group on the lane, then upload it. `timed`: as an update.
  void submit_uploads(bool timed, std::function<void(std::size_t group)> prepare);
  /// On the update lane.
  void prepare_and_upload(std::span<const LaneOperation> operations,
                          const std::function<void(std::size_t group)>& prepare, Uploads& uploads,
                          std::int64_t step);
  void copy_up(const sim::OffloadOperation& operation, std::int64_t step);
  void place_weights(std::size_t slice, std::size_t group, std::int64_t step);
  void take_upload(StepResult* result);
  void wait_for_upload(std::size_t group, StepResult* result);
  /// The compute stream waits, and with `on_host` the calling thread does.
  void wait_for_uploads(bool on_host);
  void start_window(bool may_adapt);
  [[nodiscard]] WindowObservation of_all_ranks(WindowObservation seen);
  [[nodiscard]] std::int64_t adapted_interval(const WindowObservation& seen) const;
  /// The age of the oldest gradient, when used, in a window of `steps` steps or in the one of
  /// `before` that it follows.
  [[nodiscard]] std::int64_t oldest_gradient(std::int64_t before, std::int64_t steps) const {
    return steps - 1 + (settings_.overlap_step ? before : 0);
  }
  void wait_for_lane(CpuLane& lane, CpuLane::Ticket ticket, StepResult* result);
  void note_wait(Clock::time_point start, StepResult* result);
  [[nodiscard]] bool overlaps() const { return settings_.overlap_step && !warm_up_; }

  [[nodiscard]] static std::size_t group_of(const sim::IssuedOperation& operation) {
    return static_cast<std::size_t>(operation.group);
  }
  template <class Visit>
  void for_slices(std::size_t group, Visit&& visit) const {
    const GroupRange& range = layout_.groups[group];
    for (std::size_t s = range.first_slice; s < range.first_slice + range.slices; ++s) visit(s);
  }
  [[nodiscard]] std::vector<std::int64_t> elements_by_group(bool deferred_alone) const;

  TrainableModel& model_;
  ElementType type_;
  OffloadSettings settings_;
  Device& device_;
  Communicator& communicator_;
  std::vector<int> owners_;  // by parameter
  Layout layout_;
  TrackRecorder& waits_;  // the training thread's
  TrackRecorder& sum_track_;
  TrackRecorder& update_track_;
  bool warm_up_;

  DeferredColumns deferred_;
  DeviceColumns columns_;
  ColumnCarrier carrier_;
  Buffer transfer_;  // pinned, as large as the largest parameter: what is loaded or written
  std::unique_ptr<Stream> compute_;
  std::unique_ptr<Stream> d2h_;
  std::unique_ptr<Stream> h2d_;

  std::int64_t step_ = 0;  // steps done
  Window window_;
  Selection selection_;
  HandedOver update_;
  sim::OffloadRule rule_;
  std::array<std::vector<Event>, kOperations> newest_;  // by kind and group
  Event last_upload_;                                   // the update lane's alone

  std::vector<RankedMatrix> ranked_;  // with topk_is_global: of all ranks
  std::uint64_t gradient_bytes_ranked_ = 0;
  std::vector<SliceImportance> importance_;  // of the last step
  IntervalPolicy interval_policy_;
  Clock::time_point step_start_;
  std::atomic<double> update_seconds_ = 0;  // of the last update

  ThreadPool sum_pool_;
  ThreadPool update_pool_;
  // Last: their jobs use all of the above, and updates wait for sums.
  CpuLane sum_lane_;
  CpuLane update_lane_;
};

}  // namespace zenflow::runtime
