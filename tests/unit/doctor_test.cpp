#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/doctor/check.h"
#include "runtime/doctor/report.h"
#include "tests/support/machines.h"

namespace zenflow::runtime {
namespace {

using ::testing::AllOf;
using testing::good_machine;
using ::testing::HasSubstr;
using ::testing::Not;

/// The check of this id after `spoil` has changed the good machine. Every other check must say what
/// it says of the good machine, unless its id is in `also`.
Check after(const std::string& id, const std::function<void(MachineFacts&)>& spoil,
            const std::vector<std::string>& also = {}, GpuNeed need = GpuNeed::kOptional) {
  MachineFacts facts = good_machine();
  spoil(facts);
  Check wanted;
  for (const Check& check : check_machine(facts, need)) {
    if (check.id == id) {
      wanted = check;
    } else if (std::find(also.begin(), also.end(), check.id) == also.end()) {
      EXPECT_EQ(check.status, CheckStatus::kOk) << check.id << ": " << check.found;
    }
  }
  EXPECT_EQ(wanted.id, id) << "no such check";
  const bool is_bad = wanted.status == CheckStatus::kWarn || wanted.status == CheckStatus::kFail;
  if (is_bad) {
    EXPECT_NE(wanted.expected, "") << id;
    EXPECT_NE(wanted.advice, "") << id;
  }
  return wanted;
}

TEST(Doctor, FindsNothingOnAGoodMachine) {
  for (const GpuNeed need : {GpuNeed::kOptional, GpuNeed::kRequired}) {
    const std::vector<Check> checks = check_machine(good_machine(), need);
    EXPECT_EQ(checks.size(), 16U);
    for (const Check& check : checks) {
      EXPECT_EQ(check.status, CheckStatus::kOk) << check.id << ": " << check.found;
      EXPECT_NE(check.found, "") << check.id;
      EXPECT_EQ(check.advice, "") << check.id;
    }
  }
}

// ---- GPU ----

TEST(Doctor, OldDriverFailsWithBothVersions) {
  const Check check = after("gpu-driver", [](MachineFacts& facts) {
    facts.driver = {.built_with = 13000, .status = 35, .supports = 12020, .release = "535.104.05"};
  });
  EXPECT_EQ(check.status, CheckStatus::kFail);
  EXPECT_THAT(check.found, HasSubstr("535.104.05"));
  EXPECT_THAT(check.expected, HasSubstr("580"));
}

TEST(Doctor, MissingDriverIsAWarningWithoutAGpuAndAFailureWithOne) {
  const auto no_driver = [](MachineFacts& facts) {
    facts.driver = {.built_with = 13000, .status = 35};
  };
  const auto no_gpu = [&](MachineFacts& facts) {
    no_driver(facts);
    facts.gpus.clear();
  };
  EXPECT_EQ(after("gpu-driver", no_driver).status, CheckStatus::kFail);
  EXPECT_EQ(after("gpu-driver", no_gpu, {"gpu-link"}).status, CheckStatus::kWarn);
  EXPECT_EQ(after("gpu-driver", no_gpu, {"gpu-link"}, GpuNeed::kRequired).status,
            CheckStatus::kFail);
}

TEST(Doctor, AStubIsNamedByItsFileWhateverItsFolderIsCalled) {
  const Check check = after(
      "library-cuda",
      [](MachineFacts& facts) {
        facts.driver = {.built_with = 13000, .status = 34};
        facts.libraries.push_back({.id = "cuda", .name = {}, .path = "/opt/other/libcuda.so.1"});
      },
      {"gpu-driver", "libcuda-stub"});
  EXPECT_EQ(check.status, CheckStatus::kFail);
  EXPECT_THAT(check.found, HasSubstr("/opt/other/libcuda.so.1: a stub"));
  const Check real = after("library-cuda", [](MachineFacts& facts) {
    facts.libraries.push_back({.id = "cuda", .name = {}, .path = "/lib/libcuda.so.1"});
  });
  EXPECT_EQ(real.status, CheckStatus::kOk);
}

TEST(Doctor, NvmlThatDoesNotStartFailsWithAGpu) {
  const auto mismatch = [](MachineFacts& facts) {
    facts.libraries.push_back({.id = "nvml", .name = {}, .path = "/lib/libnvidia-ml.so.1"});
    facts.nvml_problem = "nvmlInit_v2: Driver/library version mismatch";
  };
  const Check check = after("library-nvml", mismatch);
  EXPECT_EQ(check.status, CheckStatus::kFail);
  EXPECT_THAT(check.found, AllOf(HasSubstr("/lib/libnvidia-ml.so.1"), HasSubstr("mismatch")));
  const auto without_gpu = [&](MachineFacts& facts) {
    mismatch(facts);
    facts.driver = {.built_with = 13000, .status = 35};
    facts.gpus.clear();
  };
  EXPECT_EQ(after("library-nvml", without_gpu, {"gpu-driver", "gpu-link"}).status,
            CheckStatus::kWarn);
}

TEST(Doctor, StubLibcudaFailsWhenLoadedAndWarnsWhenInTheWay) {
  const Check loaded =
      after("libcuda-stub",
            [](MachineFacts& facts) {
              facts.driver = {.built_with = 13000, .status = 34, .error = "cudaErrorStubLibrary"};
              facts.stub_folders = {"/opt/cuda/lib64/stubs"};
            },
            {"gpu-driver"});
  EXPECT_EQ(loaded.status, CheckStatus::kFail);
  EXPECT_THAT(loaded.found, HasSubstr("/opt/cuda/lib64/stubs"));
  const Check in_the_way = after(
      "libcuda-stub", [](MachineFacts& facts) { facts.stub_folders = {"/opt/cuda/lib64/stubs"}; });
  EXPECT_EQ(in_the_way.status, CheckStatus::kWarn);
}

TEST(Doctor, MissingLibraryFailsOnlyWhereAGpuWouldUseIt) {
  const auto lose = [](MachineFacts& facts) {
    facts.libraries[0].path.reset();
    facts.libraries[0].problem = "Looked for in nowhere";
  };
  const Check check = after("library-cublas", lose);
  EXPECT_EQ(check.status, CheckStatus::kFail);
  EXPECT_THAT(check.expected, HasSubstr("libcublas.so.13"));
  EXPECT_THAT(check.advice, HasSubstr("Looked for in nowhere"));
  const auto lose_both = [&](MachineFacts& facts) {
    lose(facts);
    facts.driver = {.built_with = 13000, .status = 35};
  };
  EXPECT_EQ(after("library-cublas", lose_both, {"gpu-driver"}).status, CheckStatus::kWarn);
}

TEST(Doctor, NarrowAndOldLinksAreSlow) {
  const std::string id = "gpu-link 0000:3b:00.0";
  const Check narrow = after(id, [](MachineFacts& facts) { facts.gpus[0].width = 8; });
  EXPECT_EQ(narrow.status, CheckStatus::kWarn);
  EXPECT_THAT(narrow.found, HasSubstr("x8 of x16"));
  EXPECT_THAT(narrow.advice, HasSubstr("slot"));
  const Check built_narrow = after(id, [](MachineFacts& facts) {
    facts.gpus[0].width = 8;
    facts.gpus[0].width_max = 8;
  });
  EXPECT_EQ(built_narrow.status, CheckStatus::kWarn);
  EXPECT_THAT(built_narrow.advice, Not(HasSubstr("slot")));
  const Check old = after(id, [](MachineFacts& facts) {
    facts.gpus[0].speed = 8;
    facts.gpus[0].speed_max = 8;
  });
  EXPECT_EQ(old.status, CheckStatus::kWarn);
  EXPECT_THAT(old.advice, HasSubstr("old PCIe generation"));
}

TEST(Doctor, LoweredLinkSpeedMayBeIdleness) {
  const Check check =
      after("gpu-link 0000:3b:00.0", [](MachineFacts& facts) { facts.gpus[0].speed = 2.5; });
  EXPECT_EQ(check.status, CheckStatus::kWarn);
  EXPECT_THAT(check.found, HasSubstr("2.5 of 32 GT/s"));
  EXPECT_THAT(check.advice, HasSubstr("under load"));
}

TEST(Doctor, RemoteNumaNodeNamesTheRightOne) {
  const Check check =
      after("gpu-numa 0000:3b:00.0", [](MachineFacts& facts) { facts.gpus[0].numa_node = 1; });
  EXPECT_EQ(check.status, CheckStatus::kWarn);
  EXPECT_THAT(check.advice, HasSubstr("--cpunodebind=1 --membind=1"));
  EXPECT_EQ(
      after("gpu-numa 0000:3b:00.0", [](MachineFacts& facts) { facts.gpus[0].numa_node.reset(); })
          .status,
      CheckStatus::kUnknown);
}

TEST(Doctor, CuptiHeldByAnotherToolIsNoticed) {
  const Check held =
      after("cupti-free", [](MachineFacts& facts) { facts.cupti_subscription = 39; });
  EXPECT_EQ(held.status, CheckStatus::kFail);
  const Check signs = after("cupti-free", [](MachineFacts& facts) {
    facts.tracing_tools = {"CUDA_INJECTION64_PATH=/opt/nsys/libToolsInjection64.so"};
  });
  EXPECT_EQ(signs.status, CheckStatus::kWarn);
  EXPECT_THAT(signs.found, HasSubstr("CUDA_INJECTION64_PATH"));
  const Check broken =
      after("cupti-free", [](MachineFacts& facts) { facts.cupti_subscription = 15; });
  EXPECT_EQ(broken.status, CheckStatus::kFail);
  EXPECT_THAT(broken.found, HasSubstr("15"));
  EXPECT_EQ(
      after("cupti-free", [](MachineFacts& facts) { facts.cupti_subscription.reset(); }).status,
      CheckStatus::kUnknown);
}

TEST(Doctor, RefusedCountersMatterToUsersNotToRoot) {
  const auto only_root = [](MachineFacts& facts) { facts.counters_for_root_only = true; };
  EXPECT_EQ(after("gpu-counters", only_root).status, CheckStatus::kWarn);
  EXPECT_EQ(after("gpu-counters",
                  [&](MachineFacts& facts) {
                    only_root(facts);
                    facts.is_root = true;
                  })
                .status,
            CheckStatus::kOk);
}

// ---- memory ----

TEST(Doctor, SmallLimitsOfMemoryAreSlow) {
  const Check locked = after(
      "memlock", [](MachineFacts& facts) { facts.lock_limit = LockLimit{std::uint64_t{8} << 20}; });
  EXPECT_EQ(locked.status, CheckStatus::kWarn);
  EXPECT_EQ(locked.found, "8 MiB");
  const Check all =
      after("memlock", [](MachineFacts& facts) { facts.lock_limit = LockLimit{facts.memory}; });
  EXPECT_EQ(all.status, CheckStatus::kOk);
  const Check shared = after(
      "shared-memory", [](MachineFacts& facts) { facts.shared_memory = std::uint64_t{64} << 20; });
  EXPECT_EQ(shared.status, CheckStatus::kWarn);
  EXPECT_EQ(shared.found, "/dev/shm of 64 MiB");
  const Check group =
      after("memory", [](MachineFacts& facts) { facts.memory_limit = std::uint64_t{16} << 30; });
  EXPECT_EQ(group.status, CheckStatus::kWarn);
  EXPECT_THAT(group.found, HasSubstr("16 GiB of 512 GiB"));
}

// ---- processors ----

TEST(Doctor, MissingAvx512IsNamed) {
  const Check avx2 = after("cpu-vector", [](MachineFacts& facts) {
    facts.vector_sets = {"scalar", "avx2"};
  });
  EXPECT_EQ(avx2.status, CheckStatus::kWarn);
  EXPECT_THAT(avx2.advice, HasSubstr("AVX2 version"));
  const Check scalar =
      after("cpu-vector", [](MachineFacts& facts) { facts.vector_sets = {"scalar"}; });
  EXPECT_THAT(scalar.advice, HasSubstr("no vector version"));
}

TEST(Doctor, CoresSharedWithOthersAreSlow) {
  EXPECT_EQ(after("cpu-load", [](MachineFacts& facts) { facts.load = 3; }).status,
            CheckStatus::kWarn);
  // A service or two on a large machine is not sharing.
  EXPECT_EQ(after("cpu-load",
                  [](MachineFacts& facts) {
                    facts.load = 3;
                    facts.online_cpus.resize(128);
                  },
                  {"cpu-affinity"})
                .status,
            CheckStatus::kOk);
  // A twentieth of 128 CPUs is.
  EXPECT_EQ(after("cpu-load",
                  [](MachineFacts& facts) {
                    facts.load = 6.5;
                    facts.online_cpus.resize(128);
                  },
                  {"cpu-affinity"})
                .status,
            CheckStatus::kWarn);
  EXPECT_EQ(after("cpu-steal", [](MachineFacts& facts) { facts.steal = 0.05; }).status,
            CheckStatus::kWarn);
  const Check bound = after("cpu-affinity", [](MachineFacts& facts) { facts.allowed_cpus = {0}; });
  EXPECT_EQ(bound.status, CheckStatus::kWarn);
  EXPECT_EQ(bound.found, "1 of 4 CPUs");
  const Check quota = after("cpu-quota", [](MachineFacts& facts) { facts.cpu_quota = 1.5; });
  EXPECT_EQ(quota.status, CheckStatus::kWarn);
  EXPECT_THAT(quota.found, HasSubstr("1.5 CPUs"));
  EXPECT_EQ(after("cpu-quota", [](MachineFacts& facts) { facts.cpu_quota = 4; }).status,
            CheckStatus::kOk);
}

TEST(Doctor, ThreadsOnSeveralNodesAreSlow) {
  const Check check = after("numa", [](MachineFacts& facts) {
    facts.online_cpus = facts.allowed_cpus = {0, 1, 4, 5};
  });
  EXPECT_EQ(check.status, CheckStatus::kWarn);
  EXPECT_EQ(check.found, "CPUs on 2 of 2 nodes");
}

TEST(Doctor, KnowsWhatItDoesNotKnow) {
  // A system that says nothing, built without CUDA.
  std::size_t unknown = 0;
  for (const Check& check : check_machine({}, GpuNeed::kOptional)) {
    EXPECT_NE(check.status, CheckStatus::kFail) << check.id;
    unknown += check.status == CheckStatus::kUnknown ? 1 : 0;
  }
  EXPECT_GE(unknown, 9U);
}

// ---- report ----

const std::vector<Check> kTwo = {{"a", CheckStatus::kOk, "fine", "", ""},
                                 {"longer", CheckStatus::kFail, "bad", "good", "do\nmore"}};

TEST(DoctorReport, AlignsTextAndCounts) {
  EXPECT_EQ(checks_text(kTwo),
            "ok       a       fine\n"
            "fail     longer  bad\n"
            "                 expected: good\n"
            "                 to do: do\n"
            "                 more\n"
            "1 ok, 0 warn, 1 fail, 0 unknown\n");
}

TEST(DoctorReport, JsonHasEveryField) {
  const auto document = nlohmann::json::parse(checks_json(kTwo, "1.2.3"));
  EXPECT_EQ(document["schema_version"], 1);
  EXPECT_EQ(document["version"], "1.2.3");
  EXPECT_EQ(document["checks"][1], (nlohmann::json{{"id", "longer"},
                                                   {"status", "fail"},
                                                   {"found", "bad"},
                                                   {"expected", "good"},
                                                   {"advice", "do\nmore"}}));
  EXPECT_EQ(document["counts"],
            (nlohmann::json{{"ok", 1}, {"warn", 0}, {"fail", 1}, {"unknown", 0}}));
}

}  // namespace
}  // namespace zenflow::runtime
