#include "sim/schedule/program_builder.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/stop.h"

namespace zenflow::sim {
namespace {

/// Waits for slowest ranks that may overlap each other; one more waits for the first to end.
constexpr std::size_t kSlowestLanes = 8;

}  // namespace

ProgramBuilder::ProgramBuilder(const Job& job, StepPlan plan, Cluster cluster,
                               GradientReduction reduction)
    : job_(job),
      plan_(std::move(plan)),
      cluster_(std::move(cluster)),
      reduction_(reduction),
      element_bytes_(static_cast<double>(bytes_per_element(job.scenario.training.dtype))),
      ranks_(static_cast<double>(job.scenario.ranks())),
      group_(communicator(job.scenario.hardware, job.scenario.gpus, job.scenario.nodes)),
      late_(job.scenario.rank_jitter > 0 ? expected_largest(group_.ranks) : 0),
      symbols_(memory_symbols(job, plan_)),
      last_compute_(cluster_.classes.size(), kNoTask),
      last_reduced_(cluster_.classes.size(), kNoTask),
      classes_(cluster_.classes.size(), {.next_forward = std::vector<After>(plan_.layers.size())}) {
  for (const PlannedLayer& layer : plan_.layers) {
    layers_.push_back(
        {to_picoseconds(all_gather_time(group_, Bytes(element_bytes_ * layer.parameters)))});
  }
  for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
    const GradientBucket& bucket = plan_.buckets[b];
    buckets_.push_back(
        {to_picoseconds(reduce_time(bucket)), PerClass(cluster_.classes.size(), kNoTask)});
    // A bucket begun in a layer's midst would stop that layer half-way; layers are whole here,
    // so the next one waits in its stead.
    const std::int32_t waits = bucket.first_layer - (bucket.begins_layer ? 0 : 1);
    if (waits >= 0) layers_[static_cast<std::size_t>(waits)].waits_for.push_back(b);
    layers_[static_cast<std::size_t>(bucket.ready_layer)].completes.push_back(b);
  }
  declare_buffers();
  for (std::size_t i = 0; varies() && i < kSlowestLanes; ++i) {
    slowest_lanes_.push_back(static_cast<LaneId>(cluster_.lanes.size()));
    cluster_.machine.lanes.push_back("slowest" + std::to_string(i));
    cluster_.lanes.push_back({LaneKind::kCollective, -1});
  }
}

Seconds ProgramBuilder::reduce_time(const GradientBucket& bucket) const {
  const Bytes bytes(element_bytes_ * bucket.elements);
  if (all_reduces()) return all_reduce_time(group_, bytes);
  if (reduction_ != GradientReduction::kToOwners || group_.ranks == 1) {
    return reduce_scatter_time(group_, bytes);
  }
  const auto layer = static_cast<std::size_t>(bucket.ready_layer);
  return reduce_to_owner_time(group_, job_.scenario.hardware.host, bytes, bucket.tensors) +
         wait_for_slowest(to_seconds(plan_.layers[layer].backward));
}

Seconds ProgramBuilder::wait_for_slowest(Seconds pass) const {
  return job_.scenario.rank_jitter * late_ * pass;
}

void ProgramBuilder::declare_buffers() {
  const bool freed_at_once = reduction_ == GradientReduction::kAllReduceBuckets ||
                             reduction_ == GradientReduction::kReduceScatterBuckets;
  buffer({.name = "CUDA context and libraries",
          .formula = "C",
          .category = MemoryCategory::kContext,
          .resident = job_.scenario.hardware.gpu.context_memory.value()});
  held_.activations = buffer({.name = "activations",
                              .formula = "Ae + n A",
                              .category = MemoryCategory::kActivations,
                              .held = "forward to backward"});
  held_.recomputed = buffer({.name = "activations recomputed",
                             .formula = "Ar",
                             .category = MemoryCategory::kActivations,
                             .held = "block's backward"});
  held_.logits = buffer({.name = "logits",
                         .formula = "Z",
                         .category = MemoryCategory::kLogits,
                         .held = "forward to backward"});
  held_.logit_gradients = buffer({.name = "gradient of the logits",
                                  .formula = "Zb",
                                  .category = MemoryCategory::kLogits,
                                  .held = "head's backward"});
  held_.gradients = buffer({.name = "gradients",
                            .formula = freed_at_once ? "b l" : "b a live parameter",
                            .category = MemoryCategory::kGradients,
                            .held = freed_at_once ? "layer's backward" : "backward until gone"});
  held_.gathered = buffer({.name = "gathered parameters",
                           .formula = "b a live parameter",
                           .category = MemoryCategory::kParameterBuffer,
                           .held = "layer, and its fetch",
                           .model_state = true});
}

void ProgramBuilder::reserve(std::span<const WindowShape> shapes) {
  std::size_t steps = 0;
  for (const WindowShape& shape : shapes) steps += static_cast<std::size_t>(shape.steps);
  // A step: each layer forward and backward, each bucket reduced, down and summed; a window:
  // each bucket updated, up and gathered. Gathers of partitioned layers grow the rest.
  const std::size_t layers = 2 * plan_.layers.size() + 4;
  const std::size_t buckets = 3 * plan_.buckets.size();
  const std::size_t tasks = classes() * (steps * (layers + buckets) + shapes.size() * buckets);
  // The estimate is a rough one, so it alone refuses only what is far too large.
  if (tasks > 2 * most_tasks()) refuse_size(fmt::format("about {}", tasks), steps);
  tasks_.reserve(tasks);
  labels_.reserve(tasks);
  dependencies_.reserve(2 * tasks);
  memory_.reserve(steps * (4 * layers + buckets));
}

std::size_t ProgramBuilder::most_tasks() const {
  return static_cast<std::size_t>(job_.scenario.max_tasks);
}

void ProgramBuilder::refuse_size(const std::string& tasks, std::size_t steps) const {
  throw Error(
      ErrorKind::kInput,
      fmt::format("{}: simulating {} steps of {} layers and {} buckets takes {} tasks, more "
                  "than run.max_tasks, {}: shorter windows, fewer micro steps an update, a "
                  "select_interval that update_interval divides, or larger buckets take "
                  "less; --set run.max_tasks=N allows more, at about 250 bytes a task",
                  job_.scenario.name, steps, plan_.layers.size(), plan_.buckets.size(), tasks,
                  most_tasks()));
}

void ProgramBuilder::begin_window(const WindowShape& shape) {
  shapes_.push_back(shape);
  windows_.push_back({static_cast<TaskId>(tasks_.size()), kNoTask, 0});
  at_.step = static_cast<std::int32_t>(shape.first_step) - 1;
  at_.window_opens = true;
}

TaskId ProgramBuilder::add(LaneUse where, Picoseconds duration, TaskLabel label,
                           std::span<const TaskId> after) {
  const auto id = static_cast<TaskId>(tasks_.size());
  tasks_.push_back({duration, where.lane, where.flow});
  labels_.push_back(label);
  if (varies()) passes_.add_task();
  for (const TaskId before : after) also_after(id, before);
  return id;
}

TaskId ProgramBuilder::on_all_ranks(Picoseconds time, TaskLabel label,
                                    std::span<const TaskId> after) {
  const TaskId all_there = slowest(after);
  const TaskId id = add(cluster_.collective, time, label, after);
  also_after(id, all_there);
  if (varies()) passes_.meet(id);
  return id;
}

TaskId ProgramBuilder::slowest(std::span<const TaskId> after) {
  if (!varies()) return kNoTask;
  const RankPasses::Stretch since = passes_.since_met(after);
  if (since.empty()) return kNoTask;
  if (since == passes_.waited()) return passes_.wait();
  const Seconds late = job_.scenario.rank_jitter * late_ * passes_.deviation(since);
  const LaneId lane = slowest_lanes_[passes_.waits_in_step() % slowest_lanes_.size()];
  const TaskId id =
      add({lane, kNoFlow}, to_picoseconds(late), label(Operation::kSlowestRank, 0), after);
  passes_.waits_for(since, id);
  return id;
}

TaskId ProgramBuilder::compute(std::size_t rank_class, Operation operation, std::int64_t index,
                               Seconds time, std::initializer_list<TaskId> after) {
  const TaskId previous = last_compute_[rank_class];
  const TaskId id = add(cluster_.classes[rank_class].compute, to_picoseconds(time),
                        label(operation, index), after);
  also_after(id, previous);
  release_holds(rank_class, id);
  classes_[rank_class].compute_before_last = previous;
  last_compute_[rank_class] = id;
  return id;
}

Seconds ProgramBuilder::link_time(Operation operation, bool pinned, double bytes,
                                  std::int32_t pieces) const {
  const HostLinkProfile& link = job_.scenario.hardware.host_link;
  const Direction way = is_d2h(operation) ? Direction::kD2H : Direction::kH2D;
  return copy_time(link, way, pinned, Bytes(bytes)) +
         static_cast<double>(pieces - 1) * link.latency;
}

TaskId ProgramBuilder::copy(std::size_t rank_class, Operation operation, std::int64_t bucket,
                            double bytes, std::span<const TaskId> after, std::int32_t pieces) {
  const RankClass& rank = cluster_.classes[rank_class];
  const bool down = is_d2h(operation);
  const Seconds time = link_time(operation, job_.deepspeed.pin_memory, bytes, pieces);
  TaskLabel named = label(operation, bucket, bytes);
  named.pageable = !job_.deepspeed.pin_memory;
  return add(down ? rank.d2h : rank.h2d, to_picoseconds(time), named, after);
}

TaskId ProgramBuilder::pageable_copy(std::size_t rank_class, Operation operation,
                                     std::int64_t bucket, double bytes,
                                     std::span<const TaskId> after, std::int32_t pieces) {
  const RankClass& rank = cluster_.classes[rank_class];
  const bool down = is_d2h(operation);
  const Seconds time = link_time(operation, false, bytes, pieces);
  const LaneId lane = down ? rank.d2h.lane : rank.h2d.lane;
  TaskLabel named = label(operation, bucket, bytes);
  named.pageable = true;
  return add({lane, kNoFlow}, to_picoseconds(time), named, after);
}

void ProgramBuilder::release_holds(std::size_t rank_class, TaskId compute) {
  for (const TaskId before : classes_[rank_class].next_compute) also_after(compute, before);
  classes_[rank_class].next_compute.clear();
}

TaskId ProgramBuilder::collective(Operation operation, Seconds time, std::int64_t index,
                                  double bytes, std::span<const TaskId> after) {
  if (job_.scenario.ranks() == 1) return kNoTask;
  return on_all_ranks(to_picoseconds(time), label(operation, index, bytes), after);
}

void ProgramBuilder::memory(TaskId task, bool at_end, BufferId buffer, double bytes) {
  if (bytes != 0) memory_.push_back({task, at_end, buffer, bytes});
}

BufferId ProgramBuilder::buffer(MemoryBuffer declared) {
  buffers_.push_back(std::move(declared));
  return static_cast<BufferId>(buffers_.size() - 1);
}

double ProgramBuilder::gathered_bytes(std::size_t layer, const ParameterGather& gather) const {
  const double parameters = gather.deepspeed != nullptr ? gather.deepspeed->layers[layer].parameters
                                                        : plan_.layers[layer].weights;
  return element_bytes_ * parameters;
}

/// A rank's part of a layer, to its GPU: from NVMe what is there, then H2D.
TaskId ProgramBuilder::fetch_shard(std::size_t rank_class, std::size_t layer,
                                   const ParameterGather& gather, double bytes,
                                   const After& ready) {
  const auto index = static_cast<std::int64_t>(layer);
  After after = ready;
  const double on_nvme = gather.deepspeed != nullptr ? gather.deepspeed->on_nvme * bytes : bytes;
  if (gather.from_nvme && on_nvme > 0) {
    const Seconds time = nvme_time(*job_.scenario.hardware.nvme, NvmeAccess::kRead, Bytes(on_nvme));
    after = {add(cluster_.classes[rank_class].nvme_read, to_picoseconds(time),
                 label(Operation::kNvmeRead, index, on_nvme), after)};
  }
  if (gather.deepspeed == nullptr) return copy(rank_class, Operation::kH2D, index, bytes, after);
  // DeepSpeed's host buffers of parameters are page-locked whatever pin_memory says.
  const Seconds time =
      link_time(Operation::kH2D, true, bytes, gather.deepspeed->layers[layer].tensors);
  return add(cluster_.classes[rank_class].h2d, to_picoseconds(time),
             label(Operation::kH2D, index, bytes), after);
}

/// `previous`: the layer that computes before it in this pass, if any. `before`: what has to be
/// done before parameters may be fetched (their update), or nullptr. Fetching lanes are in order,
/// so it is enough that a step's first fetch waits.
TaskId ProgramBuilder::gather_layer(std::size_t layer, std::optional<std::size_t> previous,
                                    const ParameterGather& gather,
                                    const std::vector<After>* before) {
  const double whole = gathered_bytes(layer, gather);
  if (!gather.enabled || whole == 0) return kNoTask;
  After shards;
  for (std::size_t c = 0; c < classes(); ++c) {
    // Parameters are fetched ahead of use, while the layer before computes: what DeepSpeed's
    // prefetching aims at with stage3_prefetch_bucket_size, tensor by tensor.
    const bool ahead =
        gather.deepspeed == nullptr || !previous || gather.deepspeed->layers[*previous].prefetches;
    After ready = {ahead ? classes_[c].compute_before_last : last_compute_[c]};
    if (before != nullptr) ready.insert(ready.end(), (*before)[c].begin(), (*before)[c].end());
    if (gather.from_host) ready = {fetch_shard(c, layer, gather, whole / ranks_, ready)};
    shards.insert(shards.end(), ready.begin(), ready.end());
  }
  TaskId ready = shards.front();
  if (job_.scenario.ranks() > 1) {
    const Picoseconds time = gather.deepspeed != nullptr
                                 ? to_picoseconds(all_gather_time(group_, Bytes(whole)))
                                 : layers_[layer].gather_time;
    ready = on_all_ranks(
        time, label(Operation::kAllGather, static_cast<std::int64_t>(layer), whole), shards);
  }
  if (ready != kNoTask && (gather.from_host || job_.scenario.ranks() > 1)) {
    memory(ready, false, held_.gathered, whole);
    return ready;
  }
  return kNoTask;
}

/// For backward, unless the layer is still there, or has none.
TaskId ProgramBuilder::gather_again(std::size_t layer, const ParameterGather& gather) {
  if (plan_.layers[layer].backward.count == 0) return kNoTask;
  if (gather.deepspeed != nullptr && gather.deepspeed->layers[layer].kept) return kNoTask;
  const bool is_last = layer + 1 == plan_.layers.size();
  return gather_layer(layer, is_last ? layer : layer + 1, gather, nullptr);
}

void ProgramBuilder::forward_layer(std::size_t layer, const std::vector<After>& before,
                                   const ParameterGather& gather) {
  const PlannedLayer& planned = plan_.layers[layer];
  if (before_forward_) before_forward_(layer);
  const bool is_first = layer == 0;
  const TaskId gathered = gather_layer(layer, is_first ? std::nullopt : std::optional(layer - 1),
                                       gather, is_first ? &before : nullptr);
  for (std::size_t c = 0; c < classes(); ++c) {
    const TaskId previous = last_compute_[c];
    const TaskId id =
        add(cluster_.classes[c].compute, planned.forward,
            label(Operation::kForward, static_cast<std::int64_t>(layer)), {previous, gathered});
    if (layer == 0) {
      for (const TaskId one : before[c]) also_after(id, one);
    }
    release_holds(c, id);
    for (const TaskId one : classes_[c].next_forward[layer]) also_after(id, one);
    classes_[c].next_forward[layer].clear();
    if (varies()) passes_.pass(id, to_seconds(planned.forward), c == 0);
    classes_[c].compute_before_last = previous;
    last_compute_[c] = id;
    if (c > 0) continue;
    if (layer == 0 && at_.step_opens) {
      step_markers_.push_back(id);
      if (std::exchange(at_.window_opens, false)) windows_.back().marker = id;
    }
    memory(id, false, held_.activations, planned.activation_bytes);
    memory(id, false, held_.logits, planned.logit_bytes);
    const bool kept = gather.deepspeed != nullptr && gather.deepspeed->layers[layer].kept &&
                      planned.backward.count > 0;
    if (gathered != kNoTask && !kept) {
      memory(id, true, held_.gathered, -gathered_bytes(layer, gather));
    }
  }
}

/// `held`: bytes of gathered parameters that are not needed after it.
void ProgramBuilder::backward_layer(std::size_t layer, TaskId gathered, double held) {
  const PlannedLayer& planned = plan_.layers[layer];
  const BufferId transient = planned.logit_bytes > 0 ? held_.logit_gradients : held_.recomputed;
  for (std::size_t c = 0; c < classes(); ++c) {
    const TaskId previous = last_compute_[c];
    const TaskId id =
        add(cluster_.classes[c].compute, planned.backward,
            label(Operation::kBackward, static_cast<std::int64_t>(layer)), {previous, gathered});
    wait_for_buffers(layer, c, id);
    release_holds(c, id);
    if (varies()) passes_.pass(id, to_seconds(planned.backward), c == 0);
    classes_[c].compute_before_last = previous;
    last_compute_[c] = id;
    if (c > 0) continue;
    if (layer + 1 == plan_.layers.size()) {
      for (const auto& [buffer, bytes] : at_backward_) memory(id, false, buffer, bytes);
      at_backward_.clear();
    }
    memory(id, false, transient, planned.transient_bytes);
    if (at_.step_opens) memory(id, false, held_.gradients, element_bytes_ * planned.parameters);
    if (reduction_ == GradientReduction::kAllReduceBuckets ||
        reduction_ == GradientReduction::kReduceScatterBuckets) {
      memory(id, true, held_.gradients, -element_bytes_ * planned.parameters);
    }
    memory(id, true, transient, -planned.transient_bytes);
    memory(id, true, held_.logits, -planned.logit_bytes);
    memory(id, true, held_.activations, -planned.activation_bytes);
    memory(id, true, held_.gathered, -held);
    for (const auto& [buffer, bytes] : after_head_) memory(id, true, buffer, bytes);
    after_head_.clear();
  }
}

/// A layer that begins several buckets waits for the first of them only: what the others would
/// wait for comes after this layer.
void ProgramBuilder::wait_for_buffers(std::size_t layer, std::size_t rank_class, TaskId backward) {
  const std::size_t buckets = plan_.buckets.size();
  if (layers_[layer].waits_for.empty() || buckets <= kBucketBuffers) return;
  const std::size_t bucket = layers_[layer].waits_for.front();
  also_after(backward,
             buckets_[(bucket + buckets - kBucketBuffers) % buckets].buffer_free[rank_class]);
}

/// Buckets whose last gradient this layer produced are reduced over the ranks.
void ProgramBuilder::reduce_ready_buckets(std::size_t layer, const BucketSink& sink) {
  for (const std::size_t b : layers_[layer].completes) {
    const GradientBucket& bucket = plan_.buckets[b];
    TaskId whole = kNoTask;
    if (reduces_ && job_.scenario.ranks() > 1) {
      whole = on_all_ranks(buckets_[b].reduce_time,
                           label(all_reduces() ? Operation::kAllReduce : Operation::kReduceScatter,
                                 static_cast<std::int64_t>(b), element_bytes_ * bucket.elements),
                           last_compute_);
      if (reduction_ == GradientReduction::kReduceScatter) {
        memory(whole, true, held_.gradients,
               -element_bytes_ * bucket.elements * (ranks_ - 1) / ranks_);
      }
    }
    last_reduced_ = whole == kNoTask ? last_compute_ : PerClass(classes(), whole);
    buckets_[b].buffer_free = sink(b, last_reduced_);
  }
}

void ProgramBuilder::forward_backward(const std::vector<After>& before,
                                      const ParameterGather& gather, const BucketSink& sink) {
  ++at_.step;
  at_.step_opens = true;
  passes(before, gather, sink);
}

void ProgramBuilder::forward_backward_again(const BucketSink& sink) {
  at_.step_opens = false;
  passes(std::vector<After>(classes()), {}, sink);
}

void ProgramBuilder::passes(const std::vector<After>& before, const ParameterGather& gather,
                            const BucketSink& sink) {
  throw_if_stopped();
  passes_.begin_step();
  if (tasks_.size() > most_tasks()) {
    refuse_size("at least " + std::to_string(tasks_.size()), static_cast<std::size_t>(step()));
  }
  for (std::size_t layer = 0; layer < plan_.layers.size(); ++layer) {
    forward_layer(layer, before, gather);
  }
  // A layer's fetch is issued before the reduction of the layer above it, which backward produces
  // meanwhile: DeepSpeed prefetches when a layer begins, and reduces when it has ended.
  const bool fetched = gather.enabled && (gather.from_host || job_.scenario.ranks() > 1);
  TaskId gathered = gather_again(plan_.layers.size() - 1, gather);
  for (std::size_t layer = plan_.layers.size(); layer-- > 0;) {
    const bool holds = fetched && plan_.layers[layer].backward.count > 0;
    backward_layer(layer, gathered, holds ? gathered_bytes(layer, gather) : 0);
    if (layer > 0) gathered = gather_again(layer - 1, gather);
    reduce_ready_buckets(layer, sink);
  }
}

Program ProgramBuilder::finish() {
  return {TaskGraph(cluster_.machine, std::move(tasks_), dependencies_),
          std::move(labels_),
          std::move(cluster_.lanes),
          std::move(cluster_.classes),
          std::move(shapes_),
          std::move(windows_),
          std::move(step_markers_),
          std::move(symbols_),
          std::move(buffers_),
          std::move(memory_),
          cluster_.compute_keeps_its_time};
}

}  // namespace zenflow::sim
