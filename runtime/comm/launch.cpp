#include "runtime/comm/launch.h"

#include <array>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

struct Variable {
  const char* name;
  const char*
      mpi;  ///< a variable that is there if ranks find each other by MPI; nullptr: they do not
};
constexpr std::array<Variable, 4> kVariables = {{{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"},
                                                 {"PMI_SIZE", "PMI_SIZE"},
                                                 {"WORLD_SIZE", nullptr},
                                                 {"SLURM_STEP_NUM_TASKS", "PMIX_RANK"}}};

int read_ranks(const char* name, std::string_view text) {
  int ranks = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  if (error != std::errc{} || end != text.data() + text.size() || ranks < 1) {
    throw Error(ErrorKind::kInput,
                fmt::format("{} in the environment: expected a number of ranks, found \"{}\"", name,
                            text.substr(0, 40)));
  }
  return ranks;
}

}  // namespace

std::optional<RankLaunch> several_ranks(const std::function<const char*(const char*)>& get) {
  for (const Variable& variable : kVariables) {
    const char* const text = get(variable.name);
    if (text == nullptr) continue;
    const int ranks = read_ranks(variable.name, text);
    // The first that is there tells: mpirun starts one rank within a Slurm job of many.
    if (ranks == 1) return std::nullopt;
    const bool by_mpi = variable.mpi != nullptr && get(variable.mpi) != nullptr;
    return RankLaunch{variable.name, ranks, by_mpi};
  }
  return std::nullopt;
}

}  // namespace zenflow::runtime
