#include "sim/tune/step_facts.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/cost/transfer_cost.h"
#include "sim/schedule/live_work.h"
#include "sim/schedule/offload.h"

namespace zenflow::sim {
namespace {

/// How much longer the flow takes than alone if all ranks that the class stands for use it.
double slowed(const Machine& machine, FlowId flow) {
  double factor = 1;
  if (flow == kNoFlow) return factor;
  for (const LinkUse& use : machine.flows[flow].uses) {
    factor = std::max(factor, use.coefficient * machine.flows[flow].solo_rate.value() /
                                  machine.links[use.link].capacity.value());
  }
  return factor;
}

double symbol(const Program& program, std::string_view name) {
  for (const MemorySymbol& one : program.symbols) {
    if (one.name == name) return one.value;
  }
  return 0;
}

void read_copies(const Job& job, StepFacts& steps) {
  const HostLinkProfile& link = job.scenario.hardware.host_link;
  const bool stage3 = job.deepspeed.zero_stage == 3;
  const bool pinned = job.deepspeed.pin_memory;
  const auto ranks = static_cast<double>(job.scenario.ranks());
  const auto bytes = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  for (const GradientBucket& bucket : steps.plan.buckets) {
    const double owned = bucket.elements / ranks;
    const double tensors = std::ceil(bucket.tensors / (stage3 ? 1 : ranks));
    const auto time = [&](Direction way, bool fast, double size) {
      const double factor =
          !fast ? 1 : (way == Direction::kD2H ? steps.d2h_factor : steps.h2d_factor);
      return factor * picoseconds(copy_time(link, way, fast, Bytes(size * owned)) +
                                  (std::max(tensors, 1.0) - 1) * link.latency);
    };
    steps.parts.sum_up.push_back(time(Direction::kH2D, pinned, bytes));
    steps.parts.sum_down.push_back(time(Direction::kD2H, pinned, bytes));
    steps.parts.fp32_down.push_back(time(Direction::kD2H, pinned, 4));
    steps.parts.fp32_down_pageable.push_back(time(Direction::kD2H, false, 4));
  }
}

}  // namespace

BufferFacts buffer_facts(const Job& job, const Schedule& schedule) {
  const Program empty = schedule.build(job, {});
  BufferFacts buffers;
  const auto need = [&](MemoryLimit limit) -> double& {
    return buffers.host_needs[static_cast<std::size_t>(limit)];
  };
  for (const MemoryBuffer& one : empty.buffers) {
    switch (one.home) {
      case MemoryHome::kGpu:
        buffers.gpu_resident += one.resident;
        continue;
      case MemoryHome::kNvme:
        need(MemoryLimit::kNvme) += one.resident;
        continue;
      case MemoryHome::kShared:
        need(MemoryLimit::kShared) += one.resident;
        break;
      case MemoryHome::kPinned:
        need(MemoryLimit::kLocked) += one.resident / static_cast<double>(job.scenario.gpus);
        break;
      case MemoryHome::kPageable:
        break;
    }
    need(MemoryLimit::kHost) += one.resident;
  }
  buffers.largest_tensor = largest_tensor(job.scenario.model);
  buffers.selected = symbol(empty, "Ps");
  if (job.deepspeed.zero_stage == 3) {
    buffers.selected /= static_cast<double>(job.scenario.ranks());
  }
  return buffers;
}

StepFacts step_facts(const Job& job, const Schedule& schedule) {
  StepFacts steps;
  steps.plan = plan_step(job);
  const bool stage3 = job.deepspeed.zero_stage == 3;
  const Communicator group =
      communicator(job.scenario.hardware, job.scenario.gpus, job.scenario.nodes);
  const auto bytes = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  StepParts& parts = steps.parts;
  parts.ranks = job.scenario.ranks() > 1;
  parts.stage3 = stage3;
  parts.overlap = job.deepspeed.overlaps_communication();
  parts.stops_for_fp32 =
      stage3 && (schedule.name() == "deepspeed-zenflow" || !job.has(Change::kAsyncStage3Gradients));
  for (const PlannedLayer& layer : steps.plan.layers) {
    parts.forward.push_back(static_cast<double>(layer.forward.count));
    parts.backward.push_back(static_cast<double>(layer.backward.count));
    parts.gather.push_back(picoseconds(all_gather_time(group, Bytes(bytes * layer.parameters))));
    steps.forward_backward += parts.forward.back() + parts.backward.back();
    steps.gathers += parts.gather.back();
    steps.parameters += layer.parameters;
  }
  const bool all_reduces = (schedule.runs_deepspeed() && !stage3) ||
                           (job.deepspeed.zero_stage == 0 && schedule.name() == "gpu-only");
  for (const GradientBucket& bucket : steps.plan.buckets) {
    const Bytes size(bytes * bucket.elements);
    const Seconds time =
        all_reduces ? all_reduce_time(group, size) : reduce_scatter_time(group, size);
    parts.reduce.push_back(parts.ranks ? picoseconds(time) : 0);
    parts.ready_layer.push_back(bucket.ready_layer);
    steps.reduce += parts.reduce.back();
    steps.last_reduce = parts.reduce.back();
  }
  // CPU work cannot oversubscribe DRAM alone (profiles are checked for it), so any rates do here.
  const CpuCosts costs = cpu_costs(job, 1, 1, false);
  const Cluster cluster = make_cluster(job.scenario, costs.rates);
  steps.d2h_factor = steps.h2d_factor = std::numeric_limits<double>::infinity();
  for (const RankClass& one : cluster.classes) {
    steps.d2h_factor = std::min(steps.d2h_factor, slowed(cluster.machine, one.d2h.flow));
    steps.h2d_factor = std::min(steps.h2d_factor, slowed(cluster.machine, one.h2d.flow));
  }
  if (schedule.runs_deepspeed()) read_copies(job, steps);
  return steps;
}

double held_at_head_backward(const Job& job, const Schedule& schedule, const BufferFacts& buffers,
                             const StepPlan& plan) {
  const auto bytes = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  const PlannedLayer& head = plan.layers.back();
  double held = 0;
  // zenflow-train's activations stay: they are among the resident buffers. So do gradients from one
  // micro-batch to the next.
  if (live_kind(schedule.name())) {
    if (schedule.micro_batches_per_step(job) == 1) return bytes * head.parameters;
    for (const PlannedLayer& layer : plan.layers) held += bytes * layer.parameters;
    return held;
  }
  for (const PlannedLayer& layer : plan.layers) held += layer.activation_bytes;
  held += head.logit_bytes + head.transient_bytes + bytes * head.parameters;
  if (job.deepspeed.zero_stage == 3 && job.scenario.ranks() > 1) {
    held += bytes * head.parameters;
    const auto layers = static_cast<std::int32_t>(plan.layers.size());
    const bool reduces_first = plan.buckets.front().ready_layer == layers - 1;
    if (!reduces_first) held += bytes * plan.layers[plan.layers.size() - 2].parameters;
  }
  if (schedule.runs_deepspeed()) held += (bytes + 8) * buffers.largest_tensor;
  if (schedule.name() == "deepspeed-zenflow") held += 2 * bytes * buffers.selected;
  return held;
}

}  // namespace zenflow::sim
