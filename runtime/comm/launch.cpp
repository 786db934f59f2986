#include "runtime/comm/launch.h"

#include <charconv>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

constexpr int kLargestPort = 65535;

int read_number(const char* name, std::string_view text, int least, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < least || number > most) {
    throw Error(ErrorKind::kInput,
                fmt::format("{} in the environment: expected a number from {} to {}, found \"{}\"",
                            name, least, most, text.substr(0, 40)));
  }
  return number;
}

int read_ranks(const char* name, std::string_view text) {
  return read_number(name, text, 1, std::numeric_limits<int>::max());
}

class Environment {
 public:
  Environment(const GetVariable& get, const RankLaunch& launch) : get_(get), launch_(launch) {}

  [[nodiscard]] std::string_view text_or(const char* name, std::string_view other) const {
    const char* const text = get_(name);
    return text == nullptr ? other : text;
  }
  [[nodiscard]] std::string_view text(const char* name) const {
    const char* const text = get_(name);
    if (text != nullptr && *text != '\0') return text;
    throw Error(
        ErrorKind::kInput,
        fmt::format("{} is {} in the environment, but {} is missing: start ranks with mpirun, "
                    "torchrun --no-python, deepspeed --no_python or srun",
                    launch_.variable, launch_.ranks, name));
  }
  [[nodiscard]] int rank(const char* name) const {
    return read_number(name, text(name), 0, launch_.ranks - 1);
  }
  [[nodiscard]] int port(const char* name) const {
    return read_number(name, text(name), 1, kLargestPort);
  }
  [[nodiscard]] bool has(const char* name) const { return get_(name) != nullptr; }

 private:
  const GetVariable& get_;
  const RankLaunch& launch_;
};

int port_after(int port) {
  return port < kLargestPort ? port + 1 : port - 1;
}

MeetingPlace as_torchrun_says(const Environment& environment) {
  MeetingPlace place;
  // A batch script of Slurm's often exports all but the rank, which srun knows.
  const bool by_srun = !environment.has("RANK") && environment.has("SLURM_PROCID");
  place.rank = environment.rank(by_srun ? "SLURM_PROCID" : "RANK");
  place.address = environment.text("MASTER_ADDR");
  place.port = environment.port("MASTER_PORT");
  if (environment.text_or("TORCHELASTIC_USE_AGENT_STORE", "") == "True") {
    place.port = port_after(place.port);
  }
  return place;
}

/// Below the ports that systems give to whoever asks for any.
int port_of_slurm_job(const Environment& environment) {
  constexpr int kFirst = 20'000;
  constexpr int kCount = 10'000;
  const int job = read_number("SLURM_JOB_ID", environment.text("SLURM_JOB_ID"), 0,
                              std::numeric_limits<int>::max());
  const int step = read_number("SLURM_STEP_ID", environment.text_or("SLURM_STEP_ID", "0"), 0,
                               std::numeric_limits<int>::max());
  return kFirst + (job % kCount * 7 + step % kCount) % kCount;
}

MeetingPlace as_slurm_says(const Environment& environment) {
  MeetingPlace place;
  place.rank = environment.rank("SLURM_PROCID");
  place.address = environment.has("MASTER_ADDR")
                      ? std::string(environment.text("MASTER_ADDR"))
                      : first_host(std::string(environment.text("SLURM_STEP_NODELIST")));
  place.port = environment.has("MASTER_PORT") ? environment.port("MASTER_PORT")
                                              : port_of_slurm_job(environment);
  return place;
}

void complete(MeetingPlace& place, const Environment& environment) {
  if (environment.has("ZENFLOW_MASTER_PORT")) place.port = environment.port("ZENFLOW_MASTER_PORT");
  place.job = fmt::format("{} {}", place.address, place.port);
  for (const char* name : {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID",
                           "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}) {
    place.job += fmt::format(" {}", environment.text_or(name, "-"));
  }
}

struct Variable {
  const char* name;
  const char* mpi;  ///< a variable that is there if ranks find each other by MPI; null: never
  MeetingPlace (*place)(const Environment&);
};
constexpr Variable kVariables[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", nullptr},
                                   {"PMI_SIZE", "PMI_SIZE", nullptr},
                                   {"WORLD_SIZE", nullptr, as_torchrun_says},
                                   {"SLURM_STEP_NUM_TASKS", "PMIX_RANK", as_slurm_says}};

}  // namespace

std::optional<RankLaunch> several_ranks(const GetVariable& get) {
  for (const Variable& variable : kVariables) {
    const char* const text = get(variable.name);
    if (text == nullptr || *text == '\0') continue;
    RankLaunch launch{.variable = variable.name, .ranks = read_ranks(variable.name, text)};
    // The first that is there tells: mpirun starts one rank within a Slurm job of many.
    if (launch.ranks == 1) return std::nullopt;
    launch.by_mpi = variable.mpi != nullptr && get(variable.mpi) != nullptr;
    if (launch.by_mpi) return launch;
    const Environment environment(get, launch);
    launch.place = variable.place(environment);
    launch.place.ranks = launch.ranks;
    complete(launch.place, environment);
    return launch;
  }
  return std::nullopt;
}

std::string first_host(const std::string& hosts) {
  std::string name;
  for (std::size_t i = 0; i < hosts.size() && hosts[i] != ','; ++i) {
    if (hosts[i] != '[') {
      name += hosts[i];
      continue;
    }
    const std::size_t end = hosts.find_first_of("-,]", i + 1);
    name += hosts.substr(i + 1, end - i - 1);
    i = hosts.find(']', i);
    if (i == std::string::npos) break;
  }
  return name;
}

}  // namespace zenflow::runtime
