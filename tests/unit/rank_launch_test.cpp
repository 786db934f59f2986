// How many ranks there are and where they meet, by what launchers put into the environment.
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/comm/launch.h"
#include "sim/base/error.h"
#include "tests/support/error_of.h"

namespace zenflow::runtime {
namespace {

using ::testing::HasSubstr;
using zenflow::testing::error_of;

using Variables = std::map<std::string, std::string>;

std::optional<RankLaunch> launch_of(const Variables& variables) {
  return several_ranks([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Variables with(Variables all, const Variables& more) {
  for (const auto& [name, value] : more) all[name] = value;
  return all;
}

// Names as torch.distributed.run and deepspeed.launcher.launch export them.
const Variables kTorchrun = {{"WORLD_SIZE", "4"},
                             {"RANK", "3"},
                             {"LOCAL_RANK", "1"},
                             {"MASTER_ADDR", "node0"},
                             {"MASTER_PORT", "29500"}};
// As `srun` without PMI.
const Variables kSlurm = {{"SLURM_STEP_NUM_TASKS", "8"},
                          {"SLURM_PROCID", "5"},
                          {"SLURM_STEP_NODELIST", "gpu[003-006,009],login1"},
                          {"SLURM_JOB_ID", "123456"},
                          {"SLURM_STEP_ID", "2"}};

TEST(RankLaunchTest, OneRankIsNoLaunch) {
  EXPECT_FALSE(launch_of({}));
  EXPECT_FALSE(launch_of({{"WORLD_SIZE", "1"}}));
  // mpirun starts one rank within a Slurm job of many.
  EXPECT_FALSE(launch_of(with(kSlurm, {{"OMPI_COMM_WORLD_SIZE", "1"}})));
}

TEST(RankLaunchTest, MpiKnowsTheRest) {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const auto launch = launch_of(with(kTorchrun, {{variable, "2"}}));
    ASSERT_TRUE(launch);
    EXPECT_TRUE(launch->by_mpi);
    EXPECT_EQ(launch->ranks, 2);
    EXPECT_EQ(launch->variable, variable);
  }
  EXPECT_TRUE(launch_of(with(kSlurm, {{"PMIX_RANK", "5"}}))->by_mpi);
}

TEST(RankLaunchTest, TorchrunAndDeepSpeedSayWhereRank0Is) {
  const auto launch = launch_of(kTorchrun);
  ASSERT_TRUE(launch);
  EXPECT_FALSE(launch->by_mpi);
  EXPECT_EQ(launch->ranks, 4);
  EXPECT_EQ(launch->place.ranks, 4);
  EXPECT_EQ(launch->place.rank, 3);
  EXPECT_EQ(launch->place.address, "node0");
  EXPECT_EQ(launch->place.port, 29500);
}

TEST(RankLaunchTest, ThePortOfTorchrunsAgentIsTaken) {
  const Variables agent = with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_EQ(launch_of(agent)->place.port, 29501);
  EXPECT_EQ(launch_of(with(agent, {{"MASTER_PORT", "65535"}}))->place.port, 65534);
  EXPECT_EQ(launch_of(with(agent, {{"ZENFLOW_MASTER_PORT", "4000"}}))->place.port, 4000);
  EXPECT_EQ(launch_of(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}))->place.port,
            29500);
}

TEST(RankLaunchTest, RestartsAreOtherJobs) {
  const auto job = [](const char* run, const char* restart) {
    return launch_of(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", run},
                                      {"TORCHELASTIC_RESTART_COUNT", restart},
                                      {"RANK", run[0] == 'a' ? "1" : "2"}}))
        ->place.job;
  };
  EXPECT_EQ(job("a", "0"), job("a", "0"));
  EXPECT_NE(job("a", "0"), job("a", "1"));
  EXPECT_NE(job("a", "0"), job("b", "0"));
  EXPECT_EQ(launch_of(kTorchrun)->place.job,
            launch_of(with(kTorchrun, {{"RANK", "0"}, {"LOCAL_RANK", "0"}}))->place.job);
}

TEST(RankLaunchTest, SlurmSaysHostsAndTheJob) {
  const auto launch = launch_of(kSlurm);
  ASSERT_TRUE(launch);
  EXPECT_FALSE(launch->by_mpi);
  EXPECT_EQ(launch->place.rank, 5);
  EXPECT_EQ(launch->place.address, "gpu003");
  EXPECT_GE(launch->place.port, 20000);
  EXPECT_LT(launch->place.port, 30000);
  EXPECT_NE(launch_of(with(kSlurm, {{"SLURM_STEP_ID", "3"}}))->place.port, launch->place.port);
  // A batch script that exports all but the rank.
  const auto exported = launch_of(
      with(kSlurm, {{"WORLD_SIZE", "8"}, {"MASTER_ADDR", "gpu003"}, {"MASTER_PORT", "29500"}}));
  EXPECT_EQ(exported->place.rank, 5);
  EXPECT_EQ(exported->place.port, 29500);
  EXPECT_FALSE(launch_of({{"WORLD_SIZE", ""}}));
  const auto told = launch_of(with(kSlurm, {{"MASTER_ADDR", "other"}, {"MASTER_PORT", "1234"}}));
  EXPECT_EQ(told->place.address, "other");
  EXPECT_EQ(told->place.port, 1234);
}

TEST(RankLaunchTest, TheFirstHostOfAList) {
  EXPECT_EQ(first_host("gpu[003-006,009],login1"), "gpu003");
  EXPECT_EQ(first_host("login1,gpu[003-006]"), "login1");
  EXPECT_EQ(first_host("n[7,9]"), "n7");
  EXPECT_EQ(first_host("rack[1-2]n[3-4]-ib"), "rack1n3-ib");
  EXPECT_EQ(first_host("alone"), "alone");
  EXPECT_EQ(first_host("open[3"), "open3");
}

TEST(RankLaunchTest, SaysWhatIsMissingOrNoNumber) {
  for (const char* name : {"RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    Variables some = kTorchrun;
    some.erase(name);
    const auto missing = error_of([&] { launch_of(some); });
    EXPECT_EQ(missing.first, ErrorKind::kInput);
    EXPECT_THAT(missing.second, HasSubstr(std::string("WORLD_SIZE is 4 in the environment, but ") +
                                          name + " is missing"));
    EXPECT_THAT(missing.second, HasSubstr("mpirun"));
  }
  const auto message = [](const char* name, const char* value) {
    return std::string(error_of([&] { launch_of(with(kTorchrun, {{name, value}})); }).second);
  };
  EXPECT_THAT(message("WORLD_SIZE", "many"), HasSubstr("found \"many\""));
  EXPECT_THAT(message("WORLD_SIZE", "0"), HasSubstr("WORLD_SIZE"));
  EXPECT_THAT(message("RANK", "4"), HasSubstr("from 0 to 3"));
  EXPECT_THAT(message("RANK", "-1"), HasSubstr("from 0 to 3"));
  EXPECT_THAT(message("MASTER_PORT", "65536"), HasSubstr("from 1 to 65535"));
  EXPECT_THAT(message("MASTER_PORT", "99999999999999"), HasSubstr("MASTER_PORT"));
}

}  // namespace
}  // namespace zenflow::runtime
