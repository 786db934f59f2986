#include "sim/tune/step_facts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "sim/cost/transfer_cost.h"
#include "sim/schedule/deepspeed_memory.h"
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

std::size_t number_of(StepPlace which, bool pageable_fp32) {
  return StepParts::number_of(which) + (pageable_fp32 ? 4U : 0U);
}

/// `of(which)`: one micro step.
template <class Of>
double sum_of_window(std::int64_t micro_steps, Of of) {
  if (micro_steps == 1) return of(StepPlace{true, true});
  return of(StepPlace{true, false}) +
         static_cast<double>(micro_steps - 2) * of(StepPlace{false, false}) +
         of(StepPlace{false, true});
}

void read_copies(const Job& job, bool zenflow, StepFacts& steps) {
  const HostLinkProfile& link = job.scenario.hardware.host_link;
  const bool stage3 = job.deepspeed.zero_stage == 3;
  const bool pinned = job.deepspeed.pin_memory;
  const auto ranks = static_cast<double>(job.scenario.ranks());
  const auto bytes = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  for (const GradientBucket& bucket : steps.plan.buckets) {
    for (const bool first : {false, true}) {
      for (const bool boundary : {false, true}) {
        const StepPlace which{first, boundary};
        steps.parts.enqueue.at(StepParts::number_of(which))
            .push_back(picoseconds(gradient_host_time(job, which, zenflow, bucket.tensors)));
      }
    }
    const double owned = bucket.elements / ranks;
    const double tensors = std::ceil(bucket.tensors / (stage3 ? 1 : ranks));
    const auto time = [&](Direction way, bool fast, double size) {
      const double factor =
          !fast ? 1 : (way == Direction::kD2H ? steps.links.d2h_factor : steps.links.h2d_factor);
      return factor * picoseconds(copy_time(link, way, fast, Bytes(size * owned)) +
                                  (std::max(tensors, 1.0) - 1) * link.latency);
    };
    steps.parts.gradients.push_back(std::max(tensors, 1.0));
    steps.parts.check.push_back(picoseconds(gradient_check_time(job, owned)));
    steps.parts.sum_up.push_back(time(Direction::kH2D, pinned, bytes));
    steps.parts.sum_down.push_back(time(Direction::kD2H, pinned, bytes));
    steps.parts.fp32_down.push_back(time(Direction::kD2H, pinned, 4));
    steps.parts.fp32_down_pageable.push_back(time(Direction::kD2H, false, 4));
  }
}

/// When any layer's backward starts: of the gradients so far at least those of unfinished buckets
/// are there, and the selected columns', which wait for the update at the step's end.
template <class HeldAt>
double held_in_published_backward(const Job& job, const StepPlan& plan, HeldAt held_at) {
  const auto bytes = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  const double stays =
      job.deepspeed.zenflow->topk_ratio / static_cast<double>(job.scenario.ranks());
  double activations = 0;
  for (const PlannedLayer& layer : plan.layers) activations += layer.activation_bytes;
  double most = 0;
  double gradients = 0;  // elements of the layers above
  double reduced = 0;    // of these in buckets that are complete
  std::size_t bucket = 0;
  for (std::size_t l = plan.layers.size(); l-- > 0;) {
    const double held = gradients - reduced + stays * reduced;
    most = std::max(most, activations + held_at(l) + bytes * held);
    activations -= plan.layers[l].activation_bytes;
    gradients += plan.layers[l].parameters;
    for (; bucket < plan.buckets.size() &&
           plan.buckets[bucket].ready_layer == static_cast<std::int32_t>(l);
         ++bucket) {
      reduced += plan.buckets[bucket].elements;
    }
  }
  return most;
}

}  // namespace

double StepFacts::path(StepPlace which, bool pageable_fp32) {
  std::optional<double>& known = paths_[number_of(which, pageable_fp32)];
  if (!known) known = step_path(parts, which, pageable_fp32);
  return *known;
}

const IsolatedStep& StepFacts::isolated(StepPlace which, bool pageable_fp32,
                                        const SwappedState& moments) {
  const auto [known, is_new] =
      isolated_.try_emplace({number_of(which, pageable_fp32), moments}, IsolatedStep{});
  if (is_new) known->second = isolated_step(parts, links, which, pageable_fp32, moments);
  return known->second;
}

double StepFacts::path_of_window(std::int64_t micro_steps) {
  return sum_of_window(micro_steps, [&](StepPlace which) { return path(which, false); });
}

double StepFacts::isolated_in_window(std::int64_t micro_steps) {
  return sum_of_window(micro_steps,
                       [&](StepPlace which) { return isolated(which, false, {}).gradients; });
}

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
  parts.overlap = overlaps_communication(job);
  parts.pinned = job.deepspeed.pin_memory;
  // A layer's parameters are fetched when the task before the last one has ended; of the second
  // layer that is the update of selected columns between the steps.
  if (schedule.name() == "deepspeed-zenflow") parts.fetched_before = 1;
  parts.stops_for_fp32 =
      !stage3 || schedule.name() == "deepspeed-zenflow" || !job.has(Change::kAsyncStage3Gradients);
  std::optional<Stage3Gathers> gathers;
  if (stage3 && schedule.runs_deepspeed()) gathers = stage3_gathers(job);
  for (std::size_t l = 0; l < steps.plan.layers.size(); ++l) {
    const PlannedLayer& layer = steps.plan.layers[l];
    const double gathered = gathers ? gathers->layers[l].parameters : layer.weights;
    parts.forward.push_back(static_cast<double>(layer.forward.count));
    parts.backward.push_back(static_cast<double>(layer.backward.count));
    parts.gather.push_back(
        gathered > 0 ? picoseconds(all_gather_time(group, Bytes(bytes * gathered))) : 0);
    parts.fetch.push_back(0);
    const bool kept = gathers && gathers->layers[l].kept;
    parts.gather_again.push_back(kept ? 0 : parts.gather.back());
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
  Cluster cluster = make_cluster(job.scenario, costs.rates);
  CopyLinks& links = steps.links;
  links.d2h_factor = links.h2d_factor = std::numeric_limits<double>::infinity();
  for (const RankClass& one : cluster.classes) {
    links.d2h_factor = std::min(links.d2h_factor, slowed(cluster.machine, one.d2h.flow));
    links.h2d_factor = std::min(links.h2d_factor, slowed(cluster.machine, one.h2d.flow));
  }
  links.d2h = cluster.classes.front().d2h.flow;
  links.h2d = cluster.classes.front().h2d.flow;
  links.machine = std::move(cluster.machine);
  if (schedule.runs_deepspeed()) read_copies(job, schedule.zenflow(job).has_value(), steps);
  if (gathers && job.deepspeed.offload_param != OffloadDevice::kNone) {
    for (std::size_t l = 0; l < parts.fetch.size(); ++l) {
      const LayerGather& layer = gathers->layers[l];
      if (layer.parameters == 0) continue;
      const HostLinkProfile& link = job.scenario.hardware.host_link;
      const Bytes part(bytes * layer.parameters / static_cast<double>(job.scenario.ranks()));
      parts.fetch[l] =
          links.h2d_factor * picoseconds(copy_time(link, Direction::kH2D, true, part) +
                                         static_cast<double>(layer.tensors - 1) * link.latency);
    }
  }
  return steps;
}

double held_in_backward(const Job& job, const Schedule& schedule, const BufferFacts& buffers,
                        const StepPlan& plan) {
  const auto bytes = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  const std::size_t head = plan.layers.size() - 1;
  // zenflow-train's activations stay: they are among the resident buffers. So do gradients from one
  // micro-batch to the next.
  if (live_kind(schedule.name())) {
    if (schedule.micro_batches_per_step(job) == 1) return bytes * plan.layers[head].parameters;
    double held = 0;
    for (const PlannedLayer& layer : plan.layers) held += bytes * layer.parameters;
    return held;
  }
  const bool stage3 = job.deepspeed.zero_stage == 3;
  // Of DeepSpeed's stage 3 gathered parameters are left out: which are there depends.
  const bool gathers = stage3 && job.scenario.ranks() > 1 && !schedule.runs_deepspeed();
  double activations = 0;
  for (const PlannedLayer& layer : plan.layers) activations += layer.activation_bytes;
  const auto held_at = [&](std::size_t l) {
    const PlannedLayer& layer = plan.layers[l];
    double held = layer.logit_bytes + layer.transient_bytes + bytes * layer.parameters;
    if (!gathers) return held;
    held += bytes * layer.weights;
    if (l == 0) return held;
    const bool reduces_first = std::any_of(
        plan.buckets.begin(), plan.buckets.end(),
        [l](const GradientBucket& one) { return one.ready_layer == static_cast<std::int32_t>(l); });
    return held + (reduces_first ? 0 : bytes * plan.layers[l - 1].weights);
  };
  if (schedule.name() == "zenflow") return held_in_published_backward(job, plan, held_at);
  const double buckets = schedule.runs_deepspeed() ? bucket_memory(job) : 0;
  double held =
      std::max(activations + held_at(head),
               activations - plan.layers[head].activation_bytes + held_at(head - 1) + buckets);
  if (schedule.name() == "deepspeed-zenflow") held += 2 * bytes * buffers.selected;
  return held;
}

}  // namespace zenflow::sim
