#include "sim/tune/candidate_list.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <unordered_map>

#include "sim/base/thread_pool.h"

namespace zenflow::sim {
namespace {

using Cancelled = std::function<bool()>;

/// ZenFlow's knobs vary fastest, so points that differ only in them follow each other. False:
/// cancelled.
bool enumerate(Candidates& candidates, CandidateList& list, const Cancelled& cancelled) {
  const Space& space = candidates.request().space;
  std::uint64_t inner = 1;
  for (const KnobInfo& one : knobs()) {
    if (one.of_zenflow) inner *= space.values(one.knob).size();
  }
  std::unordered_map<std::uint64_t, std::uint64_t> members;
  constexpr std::uint64_t kAsked = 4096;
  std::uint64_t looked = 0;
  const std::uint64_t outer = space.size() / inner;
  for (std::uint64_t o = 0; o < outer; ++o) {
    if (cancelled && cancelled()) return false;
    const Setting first = space.at(o * inner);
    if (const std::string why = candidates.refusal_of_rest(first); !why.empty()) {
      list.refused[why] += inner;
      continue;
    }
    const std::uint64_t step = first.zenflow() ? 1 : inner;
    for (std::uint64_t i = 0; i < inner; i += step) {
      if (++looked % kAsked == 0 && cancelled && cancelled()) return false;
      const Setting setting = space.at(o * inner + i);
      const std::string& why = candidates.refusal(setting);
      if (why.empty()) {
        members[space.index_of(candidates.canonical(setting))] += step;
      } else {
        list.refused[why] += step;
      }
    }
  }
  list.all.reserve(members.size());
  for (const auto& [index, count] : members) {
    Candidate& one = list.all.emplace_back();
    one.index = index;
    one.members = count;
    one.setting = space.at(index);
  }
  std::sort(list.all.begin(), list.all.end(),
            [](const Candidate& a, const Candidate& b) { return a.index < b.index; });
  return true;
}

/// Chunks of candidates that follow each other, each with what its bounds share. False: cancelled.
bool bound(const Candidates& candidates, std::vector<Candidate>& all, unsigned threads,
           const Cancelled& cancelled) {
  constexpr std::size_t kChunks = 16;
  /// How much of a chunk is done before asking again whether to stop.
  constexpr std::size_t kPiece = 256;
  const Setting own = setting_of(candidates.request().job);
  const std::size_t size = (all.size() + kChunks - 1) / kChunks;
  ThreadPool pool(std::min<std::size_t>(threads, kChunks));
  std::array<BoundsComputer, kChunks> computers;
  std::array<std::optional<Job>, kChunks> scratches;
  for (std::size_t done = 0; done < size; done += kPiece) {
    if (cancelled && cancelled()) return false;
    pool.run(kChunks, [&](std::size_t chunk) {
      const std::size_t begin = chunk * size + done;
      const std::size_t end = std::min({all.size(), (chunk + 1) * size, begin + kPiece});
      for (std::size_t i = begin; i < end; ++i) {
        Candidate& one = all[i];
        std::optional<Job>& scratch = scratches[chunk];
        if (!scratch) scratch = candidates.job(one.setting);
        one.bounds = candidates.bounds(one.setting, *scratch, computers[chunk]);
        one.cost_bound = candidates.cost(one.setting, one.bounds.step_time);
        one.kind = kind_of(one.setting);
        one.risk = risk_of(one.setting, one.bounds.staleness, one.bounds.gpu_bytes, own, one.index);
      }
    });
  }
  return true;
}

void order(CandidateList& list) {
  const std::vector<Candidate>& all = list.all;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].bounds.infeasible.empty()) {
      list.by_bound.push_back(i);
    } else {
      list.refused[all[i].bounds.infeasible] += all[i].members;
    }
  }
  std::sort(list.by_bound.begin(), list.by_bound.end(), [&](std::size_t a, std::size_t b) {
    // With equal bounds, first the settings that meet them: nothing shares cores with a bound
    // worker.
    const bool bound_a = !all[a].setting.flag(Knob::kBindCores);
    const bool bound_b = !all[b].setting.flag(Knob::kBindCores);
    return std::tie(all[a].cost_bound, bound_a, all[a].index) <
           std::tie(all[b].cost_bound, bound_b, all[b].index);
  });
}

}  // namespace

std::optional<std::size_t> CandidateList::find(std::uint64_t index) const {
  const auto at = std::lower_bound(
      all.begin(), all.end(), index,
      [](const Candidate& candidate, std::uint64_t wanted) { return candidate.index < wanted; });
  if (at == all.end() || at->index != index || !at->bounds.infeasible.empty()) return std::nullopt;
  return static_cast<std::size_t>(at - all.begin());
}

CandidateList list_candidates(Candidates& candidates, unsigned threads,
                              const Cancelled& cancelled) {
  CandidateList list;
  if (enumerate(candidates, list, cancelled) && bound(candidates, list.all, threads, cancelled)) {
    order(list);
    return list;
  }
  list.all.clear();
  list.not_reached = candidates.request().space.size();
  for (const auto& [why, points] : list.refused) *list.not_reached -= points;
  return list;
}

}  // namespace zenflow::sim
