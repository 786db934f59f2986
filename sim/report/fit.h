/// Whether a job fits into its machine, buffer by buffer; if not, what to change.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/simulate/simulation.h"

namespace zenflow::sim {

struct BufferUse {
  MemoryBuffer buffer;
  double at_peak = 0;  ///< of its place; of PyTorch's own and of NVMe: all of it
  double largest = 0;
};

/// DeepSpeed's estimate for one place, and what leads from it to ours: estimate + terms = ours.
struct EstimatorComparison {
  struct Term {
    std::string what;
    double bytes;
  };
  MemoryPlace place = MemoryPlace::kGpu;
  std::string formula;
  double estimate = 0;
  std::vector<Term> terms{};
  double ours = 0;
};

/// A setting that was tried on a job that does not fit.
struct FitChange {
  std::string set;    ///< what follows --set
  MemoryLimit limit;  ///< the one that fails
  double saves = 0;   ///< bytes of it
  bool limit_holds = false;
  bool fits = false;  ///< all limits hold
};

/// Settings that were tried together, each the one that helped most after those before it.
struct FitCombination {
  std::vector<std::string> set{};
  bool fits = false;
};

struct Fit {
  std::string schedule;
  std::optional<std::int64_t> chosen_interval;  ///< of update_interval "auto"
  MemoryReport memory;
  std::vector<BufferUse> buffers;  ///< those that hold anything at some time
  std::string gpu_peak_at;         ///< "backward head of step 0", "throughout"
  std::string host_peak_at;
  std::vector<PartMemory> over_time;           ///< of the first window averaged
  std::vector<MemorySymbol> symbols;           ///< those that the buffers' formulas use
  std::vector<EstimatorComparison> estimator;  ///< empty: DeepSpeed has none for this stage
  std::vector<FitChange> changes;  ///< empty if the job fits; by limit, the most useful first
  std::optional<FitCombination> together;  ///< if no single one suffices
};

/// Simulates every window. Throws Error(kInput) if the schedule lacks what it needs.
[[nodiscard]] Fit fit(const Job& job, const Schedule& schedule);

/// The variable of the training's environment that a change stands for
/// ("DS_PIN_MEMORY_BACKEND=native"); empty: it is a key of DeepSpeed's file or of the training.
[[nodiscard]] std::string environment_of(const std::string& change);

/// "--set KEY=VALUE", with that variable.
[[nodiscard]] std::string change_text(const std::string& change);
/// "fits", "this limit holds", "not enough": what comes of it.
[[nodiscard]] std::string outcome_text(const FitChange& change);

/// What PyTorch's allocator holds of one GPU, the context included: more than it has given out,
/// since what it gets back is in pieces. A quarter more, the mean of 15 DeepSpeed jobs on an H200
/// with memory to spare (8 to 49 %; docs/accuracy/h200). The peak itself under schedules of
/// zenflow-train, which allocates once.
[[nodiscard]] double with_allocator(const Job& job, const Fit& fit);
/// The same of a peak, of which `context` is the CUDA context's.
[[nodiscard]] double with_allocator(double peak, double context);
/// Whether the job fits, but not with what the allocator holds besides.
[[nodiscard]] bool is_gpu_at_risk(const Job& job, const Fit& fit);

/// RAM of the node before DeepSpeed divides anything: every rank has read all weights, in the
/// training's type, beside its Python and CUDA. Empty for zenflow-train, which is one process, and
/// in stage 3, where transformers divides weights as it reads them (zero.Init). The files' pages in
/// the system's cache are not counted: it gives them back.
[[nodiscard]] std::optional<double> loading_peak(const Job& job, const Fit& fit);
/// Whether the job fits once it runs, but not while its weights are loaded.
[[nodiscard]] bool is_loading_at_risk(const Job& job, const Fit& fit);

/// The words of a formula that are symbols: "2 b (k P2 + P1)" has b, k, P2, P1.
[[nodiscard]] std::vector<std::string> formula_symbols(const std::string& formula);

// Parts of `fit`, in files of their own.
[[nodiscard]] std::vector<EstimatorComparison> compare_with_estimator(
    const Job& job, const MemoryReport& memory, const std::vector<BufferUse>& buffers);
/// Simulates settings one by one, and together if none suffices. Precondition: it does not fit.
void find_changes(const Job& job, const Schedule& schedule, Fit& fit);

}  // namespace zenflow::sim
