#include "sim/tune/published_bounds.h"

#include <algorithm>

#include "sim/cost/cpu_cost.h"
#include "sim/cost/gpu_cost.h"
#include "sim/cost/selection_cost.h"
#include "sim/cost/transfer_cost.h"

namespace zenflow::sim {
namespace {

/// Picoseconds after a step's first forward may begin: every lane that it uses is empty then.
struct Reduced {
  double first = 0;  ///< the first bucket's gradients are reduced
  double last = 0;   ///< all are, and backward has ended
};

/// Compute and collectives of one step in issue order, each task alone.
Reduced walk(const StepParts& parts) {
  Reduced reduced;
  double now = 0;
  double before_last = 0;
  double collective = 0;
  const auto fetch = [&](double gather) {
    if (!parts.stage3 || !parts.ranks) return 0.0;
    // Layers are fetched when the task before the last one has ended.
    return collective = std::max(collective, before_last) + gather;
  };
  const auto compute = [&](double time, double ready) {
    before_last = now;
    now = std::max(now, ready) + time;
  };
  const std::size_t layers = parts.forward.size();
  for (std::size_t l = 0; l < layers; ++l) compute(parts.forward[l], fetch(parts.gather[l]));
  std::size_t bucket = 0;
  double ready = fetch(parts.gather[layers - 1]);
  for (std::size_t l = layers; l-- > 0;) {
    compute(parts.backward[l], ready);
    if (l > 0) ready = fetch(parts.gather[l - 1]);
    for (; bucket < parts.reduce.size() && parts.ready_layer[bucket] == static_cast<int>(l);
         ++bucket) {
      reduced.last = now;
      if (parts.ranks) reduced.last = collective = std::max(collective, now) + parts.reduce[bucket];
      if (bucket == 0) reduced.first = reduced.last;
    }
  }
  reduced.last = std::max(reduced.last, now);
  return reduced;
}

class PublishedBound {
 public:
  PublishedBound(const Job& job, const StepFacts& steps, LinkLoads& loads)
      : job_(job),
        zenflow_(*job.deepspeed.zenflow),
        hardware_(job.scenario.hardware),
        steps_(steps),
        loads_(loads),
        group_(communicator(hardware_, job.scenario.gpus, job.scenario.nodes)),
        bytes_(static_cast<double>(bytes_per_element(job.scenario.training.dtype))),
        kept_(1 - zenflow_.topk_ratio),
        window_(static_cast<double>(*zenflow_.update_interval)),
        partitioned_(job.deepspeed.zero_stage == 3),
        costs_(costs()),
        reduced_(walk(steps.parts)) {}

  double go() {
    const double step = reduced_.last + selected_update() + selected_gather() + selection();
    const HostTimes host{copy(Direction::kD2H, deferred()), copy(Direction::kH2D, deferred()),
                         by_buckets(costs_.update), by_buckets(costs_.accumulate)};
    return std::max(step, zenflow_.overlap_step ? overlapped(host) : blocking(host, step));
  }

 private:
  /// The host's work for one rank: copies and sums in a step, uploads and updates in a window.
  struct HostTimes {
    double down;
    double up;
    double update;
    double sums;
  };

  /// Over the measured run, from one window's first forward to another's. Windows' updates and
  /// uploads begin when the last step's compute ends, and it takes the gather of selected weights,
  /// beside another, until the forward; copies and sums may lag behind.
  [[nodiscard]] double overlapped(const HostTimes& host) const {
    const double run = static_cast<double>(job_.scenario.run.steps);
    const double before = 2 * selected_gather() / run;
    const double lag = std::min(window_, copies_behind()) / run;
    const double behind = std::min(window_, 1 + copies_behind()) / run;
    const double down = (1 - lag) * host.down;
    const double sums = (1 - behind) * host.sums;
    const double link = links({down, host.up / window_, host.update / window_, sums});
    // The next window's update waits for this one's upload, and that for the update.
    const double cycle = (host.update + host.up + last_gather()) / window_;
    return std::max({down, sums, link - before, cycle - before, collectives() - before});
  }

  /// At a boundary all lanes are empty. The update begins with the first bucket's last sum and when
  /// the last step's selected columns are updated, and everything waits for the upload.
  [[nodiscard]] double blocking(const HostTimes& host, double step) const {
    const double after = host.up + (partitioned_ ? 0 : all_gather(kept_ * steps_.parameters));
    const double first_sum = picoseconds(costs_.accumulate.call(first_bucket()));
    // The last step's other sums are made beside the update.
    const double drained = std::max(host.update, links({0, 0, host.update, host.sums - first_sum}));
    const double by_sums = until_last_step(host.down, host.sums) + first_sum + drained + after;
    // The gather of selected weights runs beside the update.
    const double concurrent = std::min(selected_gather(), host.update + host.up);
    const double by_compute = window_ * step + host.update + after - concurrent;
    const double link = links({host.down, host.up / window_, host.update / window_, host.sums});
    return std::max({by_sums / window_, by_compute / window_, link});
  }

  /// Steps' worth of gradients whose copies may still be under way when a step ends: backward waits
  /// for the copy two buckets before the one that it begins.
  [[nodiscard]] double copies_behind() const {
    const std::vector<GradientBucket>& buckets = steps_.plan.buckets;
    std::size_t waited = 0;  // buckets whose copies are done for sure
    int layer = -1;          // of the bucket before: of several only the first is waited for
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      const int begins = buckets[b].first_layer - (buckets[b].begins_layer ? 0 : 1);
      if (begins < 0 || begins == layer) continue;
      layer = begins;
      if (b >= kBucketBuffers) waited = b - kBucketBuffers + 1;
    }
    // Without any, only the next window's boundary waits.
    if (waited == 0 || buckets.size() <= kBucketBuffers) return window_;
    double behind = 0;
    for (std::size_t b = waited; b < buckets.size(); ++b) behind += buckets[b].elements;
    return behind / static_cast<double>(steps_.parameters);
  }

  /// From a boundary without overlap_step until all sums but the last step's are made.
  [[nodiscard]] double until_last_step(double down, double sums) const {
    const double first = reduced_.first + copy(Direction::kD2H, first_bucket());
    const double steps = window_ - 1;
    return std::max(first + steps * std::max(down, sums), steps * links({down, 0, 0, sums}));
  }

  [[nodiscard]] CpuCosts costs() const {
    const auto cores = static_cast<double>(hardware_.host.cores);
    const double reserved = zenflow_.pt_reserved_cores_perc;
    const bool split = zenflow_.overlap_step && reserved > 0 && reserved < 1;
    return cpu_costs(job_, split ? (1 - reserved) * cores : cores, split ? reserved * cores : cores,
                     false);
  }
  [[nodiscard]] double ranks() const { return static_cast<double>(job_.scenario.ranks()); }
  /// Parameters of one rank whose gradients go to the CPU: of all, and of the first bucket.
  [[nodiscard]] double deferred() const { return kept_ * job_.partition(); }
  [[nodiscard]] double first_bucket() const {
    return kept_ * steps_.plan.buckets.front().elements / ranks();
  }

  [[nodiscard]] double by_buckets(const CpuWork& work) const {
    const auto calls = static_cast<double>(steps_.plan.buckets.size());
    return picoseconds(deferred() * work.time + calls * work.launch);
  }
  [[nodiscard]] double all_gather(double parameters) const {
    if (!steps_.parts.ranks) return 0;
    return picoseconds(all_gather_time(group_, Bytes(bytes_ * parameters)));
  }
  /// Latencies left out.
  [[nodiscard]] double copy(Direction way, double parameters) const {
    const double factor =
        way == Direction::kD2H ? steps_.links.d2h_factor : steps_.links.h2d_factor;
    return factor * picoseconds(Bytes(bytes_ * parameters) /
                                copy_rate(hardware_.host_link, way, job_.deepspeed.pin_memory));
  }

  [[nodiscard]] double selected_update() const {
    const double traffic = gpu_adam_bytes(job_.scenario.training.dtype);
    return picoseconds(
        stream_time(hardware_.gpu, Bytes(zenflow_.topk_ratio * job_.partition() * traffic)));
  }
  [[nodiscard]] double selected_gather() const {
    return partitioned_ ? 0 : all_gather(zenflow_.topk_ratio * steps_.parameters);
  }

  /// Selections in a step; those that do not repeat do not count in the long run.
  [[nodiscard]] double selections() const {
    const std::int64_t interval = zenflow_.select_interval.value_or(0);
    const bool by_step = zenflow_.select_strategy != "epoch";
    return by_step && interval > 0 ? 1 / static_cast<double>(interval) : 0;
  }
  [[nodiscard]] double norm_exchange() const {
    if (!steps_.parts.ranks) return 0;
    return picoseconds(norm_exchange_time(group_, steps_.plan.matrix_columns));
  }
  [[nodiscard]] double selection() const {
    if (selections() == 0) return 0;
    double matrix = 0;
    for (const GradientBucket& one : steps_.plan.buckets) matrix += one.matrix_elements;
    const DType dtype = job_.scenario.training.dtype;
    const double norms = picoseconds(column_norm_time(hardware_.gpu, dtype, matrix / ranks()));
    const double top_k = picoseconds(top_k_time(hardware_.gpu, steps_.plan.matrix_columns));
    return selections() * (norms + norm_exchange() + top_k);
  }

  /// Uploads are gathered bucket by bucket, the last one when all have come up.
  [[nodiscard]] double last_gather() const {
    return partitioned_ ? 0 : all_gather(kept_ * steps_.plan.buckets.back().elements);
  }
  /// Those of two streams pass over the same links.
  [[nodiscard]] double collectives() const {
    double uploads = 0;
    for (const GradientBucket& one : steps_.plan.buckets) {
      uploads += partitioned_ ? 0 : all_gather(kept_ * one.elements);
    }
    const double fetches = partitioned_ ? 2 * steps_.gathers : 0;
    return steps_.reduce + fetches + selected_gather() + selections() * norm_exchange() +
           uploads / window_;
  }

  /// The most loaded link of the host, by what lanes have to do, in the order of HostWork.
  [[nodiscard]] double links(std::array<double, kHostWorks> work) const {
    work[static_cast<std::size_t>(HostWork::kDown)] /= steps_.links.d2h_factor;
    work[static_cast<std::size_t>(HostWork::kUp)] /= steps_.links.h2d_factor;
    double most = 0;
    for (const LinkLoad& link : loads_.of(job_.scenario, costs_.rates)) {
      double load = 0;
      for (std::size_t i = 0; i < kHostWorks; ++i) load += link[i] * work[i];
      most = std::max(most, load);
    }
    return most;
  }

  const Job& job_;
  const ZenFlowSettings& zenflow_;
  const HardwareProfile& hardware_;
  const StepFacts& steps_;
  LinkLoads& loads_;
  Communicator group_;
  double bytes_;
  double kept_;
  double window_;
  bool partitioned_;
  CpuCosts costs_;
  Reduced reduced_;
};

}  // namespace

std::vector<LinkLoad> link_loads(const Scenario& scenario, const RankRates& rates) {
  const Cluster cluster = make_cluster(scenario, rates);
  const Machine& machine = cluster.machine;
  std::vector<LinkLoad> loads(machine.links.size(), LinkLoad{});
  const auto add = [&](FlowId flow, HostWork work) {
    if (flow == kNoFlow) return;
    const Flow& one = machine.flows[flow];
    for (const LinkUse& use : one.uses) {
      loads[use.link][static_cast<std::size_t>(work)] +=
          use.coefficient * one.solo_rate.value() / machine.links[use.link].capacity.value();
    }
  };
  for (const RankClass& one : cluster.classes) {
    add(one.d2h.flow, HostWork::kDown);
    add(one.h2d.flow, HostWork::kUp);
    add(one.cpu_update.flow, HostWork::kUpdate);
    add(one.cpu_accumulate.flow, HostWork::kSum);
  }
  return loads;
}

const std::vector<LinkLoad>& LinkLoads::of(const Scenario& scenario, const RankRates& rates) {
  const auto [known, is_new] =
      known_.try_emplace({rates.cpu_update.value(), rates.cpu_accumulate.value(), rates.d2h.value(),
                          rates.h2d.value(), static_cast<double>(scenario.gpus)});
  if (is_new) known->second = link_loads(scenario, rates);
  return known->second;
}

double published_zenflow_bound(const Job& job, const StepFacts& steps, LinkLoads& loads) {
  return PublishedBound(job, steps, loads).go();
}

}  // namespace zenflow::sim
