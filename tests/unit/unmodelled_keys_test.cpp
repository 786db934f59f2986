// Which keys of a file a simulation passes over.
#include "sim/deepspeed/unmodelled_keys.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/deepspeed/ds_document.h"
#include "sim/deepspeed/ds_fields.h"

namespace zenflow::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> paths(const std::string& text) {
  std::vector<std::string> found;
  for (const UnmodelledKey& key : unmodelled_keys(parse_ds_document(text, "ds.json").root)) {
    found.push_back(key.path);
  }
  return found;
}

TEST(UnmodelledKeys, AreNamedInTheFilesOrderWhereTheyStand) {
  const std::string text = R"({"memory_breakdown": true,
    "compile": {"deepcompile": true, "debug_log": true},
    "scheduler": {"type": "WarmupLR"}, "data_types": {"param_dtype": "fp32"}})";
  EXPECT_THAT(paths(text),
              ElementsAre("memory_breakdown", "compile.deepcompile", "data_types.param_dtype"));
  const auto keys = unmodelled_keys(parse_ds_document(text, "ds.json").root);
  EXPECT_EQ(keys[1].at.text(), "ds.json:2:17");
}

TEST(UnmodelledKeys, AreNotNamedWithAValueThatChangesNothing) {
  EXPECT_THAT(paths(R"({"wall_clock_breakdown": false, "sequence_parallel_size": 1.0,
                        "memory_breakdown": "auto", "communication_data_type": null})"),
              IsEmpty());
  EXPECT_THAT(paths(R"({"flops_profiler": {"enabled": false}, "comms_logger": {"verbose": true}})"),
              IsEmpty());
  EXPECT_THAT(paths(R"({"flops_profiler": {"enabled": true}})"), ElementsAre("flops_profiler"));
}

TEST(UnmodelledKeys, CountInTheirStageAndOnTheirDevice) {
  const auto zero = [](const std::string& text) {
    return paths(R"({"zero_optimization": {)" + text + "}}");
  };
  const std::string both = R"(, "zero_quantized_weights": true, "parameter_alignment": true)";
  EXPECT_THAT(zero("\"stage\": 3" + both), ElementsAre("zero_optimization.zero_quantized_weights"));
  EXPECT_THAT(zero("\"stage\": 2" + both), ElementsAre("zero_optimization.parameter_alignment"));
  const std::string aio = R"(}, "aio": {"block_size": 1048576}, "bf16": {"enabled": true)";
  EXPECT_THAT(zero(R"("stage": 3, "offload_optimizer": {"device": "cpu"})" + aio), IsEmpty());
  EXPECT_THAT(zero(R"("stage": 3, "offload_optimizer": {"device": "nvme"})" + aio),
              ElementsAre("aio.block_size"));
}

TEST(UnmodelledKeys, KnowOptimizersAndWhatIsRemoved) {
  EXPECT_THAT(paths(R"({"optimizer": {"type": "Lamb", "params": {"lr": 1, "max_coeff": 10}}})"),
              ElementsAre("optimizer.type", "optimizer.params.max_coeff"));
  EXPECT_THAT(paths(R"({"optimizer": {"type": "AdamW", "params": {"torch_adam": true}}})"),
              ElementsAre("optimizer.params.torch_adam"));
  EXPECT_THAT(paths(R"({"curriculum_learning": {"enabled": true}, "amp": {"enabled": false}})"),
              ElementsAre("curriculum_learning"));
}

TEST(UnmodelledKeys, HaveOneRowForEveryKey) {
  std::set<std::string> blocks;
  for (const InnerKey& one : inner_keys()) {
    EXPECT_TRUE(blocks.insert(std::string(one.block) + "." + std::string(one.key)).second)
        << one.block << " " << one.key;
  }
  for (const Version& version : known_versions()) {
    std::set<std::string_view> top;
    for (const TopLevelKey& one : top_level_keys()) {
      if (!is_valid_in(one, version)) continue;
      EXPECT_TRUE(top.insert(one.key).second) << one.key << " in " << to_string(version);
    }
  }
}

}  // namespace
}  // namespace zenflow::sim
