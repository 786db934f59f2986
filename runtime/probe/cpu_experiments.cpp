#include <array>
#include <atomic>
#include <limits>
#include <thread>

#include <fmt/format.h>

#include "kernels/accumulate/accumulate.h"
#include "kernels/cast/cast.h"
#include "runtime/probe/cpu_adam.h"
#include "runtime/probe/probe.h"
#include "runtime/trace/recorder.h"

namespace zenflow::runtime {
namespace {

using kernels::Bf16;

constexpr double kGiga = 1e9;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

int threads_of(const ThreadPool& pool) {
  return static_cast<int>(pool.threads());
}

/// Calls work(first, count) for pieces of [0, n) on all threads of the pool.
template <class Work>
void in_pieces(ThreadPool& pool, std::size_t n, const Work& work) {
  constexpr std::size_t kPiece = std::size_t{1} << 18;
  pool.run((n + kPiece - 1) / kPiece,
           [&](std::size_t i) { work(i * kPiece, std::min(kPiece, n - i * kPiece)); });
}

/// The CPU optimizer and the passes around it.
class Cpu final : public ExperimentGroup {
 public:
  Cpu(const CpuTopology& topology, const ProbeSettings& settings)
      : cores_(topology.cores()),
        quick_(settings.quick),
        n_(settings.array_bytes / sizeof(float)) {}

  [[nodiscard]] std::string name() const override { return "CPU optimizer"; }
  void prepare() override {
    for (std::vector<float>& array : arrays_) array.assign(n_, 0.5F);
    narrow_.assign(n_, Bf16{});
  }
  void release() override {
    for (std::vector<float>& array : arrays_) array = {};
    narrow_ = {};
    pool_.reset();
  }

  [[nodiscard]] std::vector<Experiment> experiments() override {
    std::vector<Experiment> list;
    const int all = static_cast<int>(cores_.size());
    for (const int threads : thread_counts(all, quick_)) {
      list.push_back({fmt::format("adam.threads{}", threads), "GB/s",
                      fmt::format("AdamW of {} M parameters in fp32, 28 B each, {} bound threads",
                                  n_ >> 20, threads),
                      [=, this] { return adam(threads, true, n_); }});
    }
    list.push_back({"adam.unbound", "GB/s", "the same on all cores, threads not bound",
                    [=, this] { return adam(all, false, n_); }});
    for (const std::size_t n : adam_call_sizes(n_, quick_)) {
      list.push_back(
          {adam_call_id(n), "GB/s",
           fmt::format("AdamW of {} Ki parameters a call, call after call through the arrays, "
                       "bound threads on all cores",
                       n >> 10),
           [=, this] { return adam(all, true, n); }});
    }
    for (const int threads : thread_counts(all, true)) add_passes(threads, list);
    return list;
  }

 private:
  void add_passes(int threads, std::vector<Experiment>& list) {
    const auto add = [&](const char* id, const char* what, double bytes, auto work) {
      const std::string full = fmt::format("{}.threads{}", id, threads);
      if (!list.empty() && list.back().id == full) return;
      list.push_back({full, "GB/s", what, [=, this] {
                        ThreadPool& pool = pool_of(threads, true);
                        const auto begin = Clock::now();
                        in_pieces(pool, n_, work);
                        return static_cast<double>(n_) * bytes / since(begin) / kGiga;
                      }});
    };
    add("cast_down", "fp32 to bf16, 6 B an element", 6, [this](std::size_t first, std::size_t n) {
      kernels::to_bf16(arrays_[0].data() + first, n, narrow_.data() + first);
    });
    add("cast_up", "bf16 to fp32, 6 B an element", 6, [this](std::size_t first, std::size_t n) {
      kernels::to_float(narrow_.data() + first, n, arrays_[1].data() + first);
    });
    add("accumulate", "bf16 into an fp32 sum, 10 B an element", 10,
        [this](std::size_t first, std::size_t n) {
          kernels::accumulate(arrays_[2].data() + first, narrow_.data() + first, 1e-3F, n);
        });
  }

  /// Kept until another is asked for: threads do not start within a measurement.
  ThreadPool& pool_of(int threads, bool bound) {
    if (!pool_ || threads_of(*pool_) != threads || pool_bound_ != bound) {
      pool_ = optimizer_pool(threads, bound ? cores_ : std::vector<int>{});
      pool_bound_ = bound;
    }
    return *pool_;
  }
  double adam(int threads, bool bound, std::size_t n) {
    ThreadPool& pool = pool_of(threads, bound);
    // A figure is no shorter than some milliseconds. Each call goes on where the last one ended, as
    // an optimizer from layer to layer: what it works on has left the caches since it was there.
    const std::size_t times = std::max<std::size_t>(1, (std::size_t{1} << 22) / n);
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < times; ++i) {
      if (next_ + n > n_) next_ = 0;
      update_all(pool,
                 {arrays_[0].data() + next_, arrays_[1].data() + next_, arrays_[2].data() + next_,
                  arrays_[3].data() + next_},
                 n);
      next_ += n;
    }
    return static_cast<double>(times * n) * kAdamBytesPerParameter / since(begin) / kGiga;
  }

  std::vector<int> cores_;
  bool quick_;
  std::size_t n_;
  std::size_t next_ = 0;  // where the next call of AdamW begins
  std::array<std::vector<float>, 4> arrays_;
  std::vector<Bf16> narrow_;
  std::unique_ptr<ThreadPool> pool_;
  bool pool_bound_ = false;
};

/// y += s x, 12 bytes an element, on the threads of one node with memory of one node.
class Dram final : public ExperimentGroup {
 public:
  Dram(const CpuTopology& topology, const ProbeSettings& settings)
      : topology_(topology), quick_(settings.quick), bytes_(settings.array_bytes) {}

  [[nodiscard]] std::string name() const override { return "DRAM"; }
  void prepare() override {
    for (const CpuTopology::Node& node : topology_.nodes()) {
      Part part{{}, optimizer_pool(static_cast<int>(node.cores.size()), node.cores)};
      for (auto& array : part.arrays) {
        array = topology_.allocate_on(node.number, bytes_);
        std::fill_n(static_cast<float*>(array.get()), bytes_ / sizeof(float), 0.5F);
      }
      parts_.push_back(std::move(part));
    }
  }
  void release() override {
    parts_.clear();
    narrow_.reset();
  }

  [[nodiscard]] std::vector<Experiment> experiments() override {
    std::vector<Experiment> list;
    const auto& nodes = topology_.nodes();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (const int threads : thread_counts(static_cast<int>(nodes[i].cores.size()), quick_)) {
        list.push_back({fmt::format("dram.node{}.threads{}", nodes[i].number, threads), "GB/s",
                        topology_.binds_memory() ? "y += s x, 12 B an element, memory of the node"
                                                 : "y += s x, 12 B an element, memory not bound",
                        [=, this] { return on(i, i, threads); }});
      }
    }
    if (nodes.size() > 1) {
      if (topology_.binds_memory()) {
        list.push_back({"dram.remote", "GB/s", "cores of the first node, memory of the last",
                        [this] { return on(0, parts_.size() - 1, threads_of(*parts_[0].pool)); }});
      }
      list.push_back({"dram.all", "GB/s", "all nodes at once, each on its own memory",
                      [this] { return everywhere(); }});
    }
    return list;
  }

 private:
  struct Part {
    std::array<CpuTopology::Memory, 2> arrays;
    std::unique_ptr<ThreadPool> pool;
  };

  void update(ThreadPool& pool, const Part& part) const {
    auto* y = static_cast<float*>(part.arrays[0].get());
    const auto* x = static_cast<const float*>(part.arrays[1].get());
    in_pieces(pool, bytes_ / sizeof(float), [=](std::size_t first, std::size_t n) {
      kernels::accumulate(y + first, x + first, 1e-3F, n);
    });
  }
  [[nodiscard]] double rate(std::size_t parts, double seconds) const {
    return static_cast<double>(parts * bytes_ / sizeof(float)) * kUpdateBytes / seconds / kGiga;
  }
  double on(std::size_t cores, std::size_t memory, int threads) {
    const std::vector<int>& near = topology_.nodes()[cores].cores;
    ThreadPool* pool = parts_[cores].pool.get();
    if (threads != threads_of(*pool)) {
      if (!narrow_ || threads_of(*narrow_) != threads || narrow_node_ != cores) {
        narrow_ = optimizer_pool(threads, near);
        narrow_node_ = cores;
      }
      pool = narrow_.get();
    }
    const auto begin = Clock::now();
    update(*pool, parts_[memory]);
    return rate(1, since(begin));
  }
  double everywhere() {
    const auto begin = Clock::now();
    {
      std::vector<std::jthread> callers;
      for (const Part& part : parts_) {
        callers.emplace_back([this, &part] { update(*part.pool, part); });
      }
    }
    return rate(parts_.size(), since(begin));
  }

  const CpuTopology& topology_;
  bool quick_;
  std::size_t bytes_;
  std::vector<Part> parts_;
  std::unique_ptr<ThreadPool> narrow_;  // of fewer threads than the node has cores
  std::size_t narrow_node_ = 0;
};

}  // namespace

std::unique_ptr<ExperimentGroup> cpu_experiments(const CpuTopology& topology,
                                                 const ProbeSettings& settings) {
  return std::make_unique<Cpu>(topology, settings);
}
std::unique_ptr<ExperimentGroup> dram_experiments(const CpuTopology& topology,
                                                  const ProbeSettings& settings) {
  return std::make_unique<Dram>(topology, settings);
}

}  // namespace zenflow::runtime
