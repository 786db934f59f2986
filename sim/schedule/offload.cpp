#include "sim/schedule/offload.h"

#include "sim/cost/transfer_cost.h"

namespace zenflow::sim {
namespace {

Picoseconds time_for(const CpuWork& work, double parameters) {
  return to_picoseconds(work.call(parameters));
}

}  // namespace

CpuWork for_one_rank(CpuWork work, double ranks_on_node) {
  return {work.bytes, ranks_on_node * work.time, work.launch};
}

CpuCosts cpu_costs(const Job& job, double update_cores, double accumulate_cores,
                   bool cast_gradient) {
  const HostProfile& host = job.scenario.hardware.host;
  const HostLinkProfile& link = job.scenario.hardware.host_link;
  const DType dtype = job.scenario.training.dtype;
  const auto ranks = static_cast<double>(job.scenario.gpus);
  const bool pinned = job.deepspeed.pin_memory;
  CpuCosts costs{for_one_rank(update_work(host, update_cores, dtype, cast_gradient,
                                          optimizer_bytes(job).traffic),
                              ranks),
                 for_one_rank(accumulate_work(host, accumulate_cores, dtype), ranks),
                 {copy_rate(link, Direction::kD2H, pinned),
                  copy_rate(link, Direction::kH2D, pinned), BytesPerSecond(0), BytesPerSecond(0)}};
  costs.rates.cpu_update = Bytes(costs.update.bytes) / costs.update.time;
  costs.rates.cpu_accumulate = Bytes(costs.accumulate.bytes) / costs.accumulate.time;
  return costs;
}

void declare_frozen(const Job& job, MemoryHome home, ProgramBuilder& builder) {
  const double bytes = job.scenario.model.frozen_bytes(builder.element_bytes());
  if (bytes == 0) return;
  const bool divided = home != MemoryHome::kGpu || job.deepspeed.zero_stage == 3;
  const double parts = home == MemoryHome::kGpu ? 1 : static_cast<double>(job.scenario.gpus);
  builder.buffer(
      {.name = "frozen weights",
       .formula = home != MemoryHome::kGpu ? "F g / N"
                  : divided                ? "F / N"
                                           : "F",
       .home = home,
       .category = MemoryCategory::kWeights,
       .resident = divided ? bytes * parts / static_cast<double>(job.scenario.ranks()) : bytes,
       .model_state = true});
}

void declare_optimizer_on_host(ProgramBuilder& builder, double parameters) {
  builder.buffer({.name = "fp32 master weights",
                  .formula = "4 g p",
                  .home = MemoryHome::kPageable,
                  .category = MemoryCategory::kOptimizerState,
                  .resident = 4 * parameters,
                  .model_state = true});
  builder.buffer({.name = "moments m and v, fp32",
                  .formula = "8 g p",
                  .home = MemoryHome::kPageable,
                  .category = MemoryCategory::kOptimizerState,
                  .resident = 8 * parameters,
                  .model_state = true});
}

TaskId Offloader::gradients_down(std::size_t rank_class, std::size_t bucket, TaskId reduced,
                                 TaskId staging_free, double share) {
  const double bytes = builder_.element_bytes() * shard(bucket, share);
  const TaskId id = builder_.copy(rank_class, Operation::kD2H, static_cast<std::int64_t>(bucket),
                                  bytes, {reduced, staging_free});
  if (rank_class == 0) {
    builder_.memory(id, true, builder_.gradients(), -bytes);
  }
  return id;
}

std::vector<PerClass> Offloader::step(const std::vector<After>& before,
                                      const ParameterGather& gather,
                                      const std::vector<PerClass>& staging_free, double share) {
  std::vector<PerClass> down(builder_.classes(), PerClass(builder_.plan().buckets.size()));
  builder_.forward_backward(before, gather, [&](std::size_t bucket, const PerClass& reduced) {
    PerClass copies;
    for (std::size_t c = 0; c < reduced.size(); ++c) {
      const TaskId free = staging_free.empty() ? kNoTask : staging_free[c][bucket];
      copies.push_back(gradients_down(c, bucket, reduced[c], free, share));
      down[c][bucket] = copies.back();
    }
    return copies;
  });
  return down;
}

std::vector<PerClass> Offloader::accumulate(const std::vector<PerClass>& down, double share) {
  std::vector<PerClass> done(down.size());
  for (std::size_t c = 0; c < down.size(); ++c) {
    for (std::size_t b = 0; b < down[c].size(); ++b) {
      done[c].push_back(builder_.add(
          builder_.cluster().classes[c].cpu_accumulate,
          time_for(costs_.accumulate, shard(b, share)),
          builder_.label(Operation::kAccumulate, static_cast<std::int64_t>(b)), {down[c][b]}));
    }
  }
  return done;
}

TaskId Offloader::update_bucket(std::size_t rank_class, std::size_t bucket,
                                std::initializer_list<TaskId> after, double share) {
  return builder_.add(builder_.cluster().classes[rank_class].cpu_update,
                      time_for(costs_.update, shard(bucket, share)),
                      builder_.label(Operation::kCpuUpdate, static_cast<std::int64_t>(bucket)),
                      after);
}

void Offloader::wait_for(TaskId task, const After& also) {
  for (const TaskId before : also) builder_.also_after(task, before);
}

std::vector<PerClass> Offloader::update(const std::vector<PerClass>& ready,
                                        const std::vector<After>& also, double share) {
  std::vector<PerClass> updated(ready.size());
  for (std::size_t c = 0; c < ready.size(); ++c) {
    for (std::size_t b = 0; b < ready[c].size(); ++b) {
      updated[c].push_back(update_bucket(c, b, {ready[c][b]}, share));
      if (b == 0) wait_for(updated[c].back(), also[c]);
    }
  }
  return updated;
}

std::vector<PerClass> Offloader::parameters_up(const std::vector<PerClass>& updated,
                                               const std::vector<After>& also, double share) {
  std::vector<PerClass> up(updated.size());
  for (std::size_t c = 0; c < updated.size(); ++c) {
    for (std::size_t b = 0; b < updated[c].size(); ++b) {
      const TaskId id = builder_.copy(c, Operation::kH2D, static_cast<std::int64_t>(b),
                                      builder_.element_bytes() * shard(b, share), {updated[c][b]});
      if (b == 0) wait_for(id, also[c]);
      up[c].push_back(id);
    }
  }
  return up;
}

TaskId Offloader::gather_parameters(const std::vector<After>& after, double share,
                                    Operation operation) {
  double parameters = 0;
  for (const PlannedLayer& layer : builder_.plan().layers) parameters += layer.parameters;
  const double bytes = builder_.element_bytes() * parameters * share;
  After all;
  for (const After& one : after) all.insert(all.end(), one.begin(), one.end());
  return builder_.collective(operation, all_gather_time(builder_.group(), Bytes(bytes)), 0, bytes,
                             all);
}

std::vector<After> Offloader::gather_buckets(const std::vector<PerClass>& up, double share) {
  if (builder_.ranks() == 1) return last_of_each(up);
  TaskId last = kNoTask;
  for (std::size_t b = 0; b < builder_.plan().buckets.size(); ++b) {
    After arrived;
    for (const PerClass& one : up) arrived.push_back(one[b]);
    const double bytes = builder_.element_bytes() * builder_.plan().buckets[b].elements * share;
    last = builder_.add(
        builder_.cluster().gather, to_picoseconds(all_gather_time(builder_.group(), Bytes(bytes))),
        builder_.label(Operation::kAllGather, static_cast<std::int64_t>(b), bytes), arrived);
  }
  return {up.size(), After{last}};
}

std::vector<After> last_of_each(const std::vector<PerClass>& tasks) {
  std::vector<After> last;
  for (const PerClass& one : tasks) last.push_back({one.back()});
  return last;
}

}  // namespace zenflow::sim
