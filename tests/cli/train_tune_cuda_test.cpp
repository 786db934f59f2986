// zenflow-train --device cuda --tune live as its user meets it, on the emulated GPU.
#include <cstdint>

#include "tests/support/train_program.h"

namespace zenflow {
namespace {

using testing::Arguments;
using testing::operator+;
using testing::TrainProgram;

class TrainTuneCuda : public TrainProgram {
 protected:
  /// Without what belongs to the host device.
  [[nodiscard]] static Arguments on_gpu() {
    return {"--model",
            "gpt2.json",
            "--data",
            "text.txt",
            "--device",
            "cuda",
            "--sequence-length",
            "8",
            "--optimizer-threads",
            "1",
            "--update-interval",
            "auto",
            "--tune",
            "live",
            "--start-interval",
            "1",
            "--max-staleness",
            "9"};
  }
};

TEST_F(TrainTuneCuda, TheRunAndItsLogAreThoseOfATunedRun) {
  const auto outcome = run(on_gpu() + Arguments{"--steps", "30", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json document = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(document.at("hardware").at("name"), "emulated GPU");
  const nlohmann::json& result = document.at("results").at(0);
  EXPECT_EQ(result.at("losses").size(), 30U);
  EXPECT_LE(result.at("staleness_steps").at("max"), 9);
  const nlohmann::json& tuning = result.at("tuning");
  std::int64_t next = tuning.at("windows").at(0).at("first_step");
  std::int64_t recorded = 0;
  for (const nlohmann::json& window : tuning.at("windows")) {
    EXPECT_EQ(window.at("first_step"), next);
    next += window.at("update_interval").get<std::int64_t>();
    recorded += window.at("recorded").get<bool>() ? 1 : 0;
  }
  EXPECT_GE(recorded, 2) << "a few windows at a time";
  EXPECT_LT(recorded, static_cast<std::int64_t>(tuning.at("windows").size()));
  for (const nlohmann::json& event :
       tuning.at("events")) {  // when a fit arrives depends on the machine
    EXPECT_NE(event.at("kind"), "failed") << event.at("reason");
  }
}

TEST_F(TrainTuneCuda, BothKnobsAreTuned) {
  const nlohmann::json result =
      this->result(on_gpu() + Arguments{"--steps", "30", "--topk-ratio", "0.2", "--topk-range",
                                        "0.1:0.6", "--max-deferred-share", "0.95"});
  ASSERT_FALSE(result.is_null());
  for (const nlohmann::json& window : result.at("tuning").at("windows")) {
    EXPECT_GE(window.at("topk_ratio"), 0.1);
    EXPECT_LE(window.at("topk_ratio"), 0.6);
  }
}

}  // namespace
}  // namespace zenflow
