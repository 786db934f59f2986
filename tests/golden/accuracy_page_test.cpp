// docs/accuracy.md is what its data and today's simulations make of it.
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/accuracy/page.h"
#include "sim/base/error.h"
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"
#include "tools/version.h"

namespace zenflow::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

const fs::path kRoot = ZENFLOW_SOURCE_DIR;

std::string first_difference(const std::string& a, const std::string& b) {
  std::istringstream first(a);
  std::istringstream second(b);
  std::string left;
  std::string right;
  for (int line = 1;; ++line) {
    const bool more_left = static_cast<bool>(std::getline(first, left));
    const bool more_right = static_cast<bool>(std::getline(second, right));
    if (!more_left && !more_right) return "only line ends differ";
    if (!more_left) left = "(no more)";
    if (!more_right) right = "(no more)";
    if (left != right) {
      return "line " + std::to_string(line) + "\n  is   " + left + "\n  now  " + right;
    }
  }
}

TEST(AccuracyPage, IsWhatItsDataAndTodaysSimulationsSay) {
  const std::string page = file_content(kRoot / "docs/accuracy.md");
  const std::string fresh = sim::accuracy_page(kRoot / "docs/accuracy", tools::kVersion).text;
  EXPECT_TRUE(page == fresh) << first_difference(page, fresh)
                             << "\nIf that is meant: build/default/tools/zenflow-validate --write "
                                "docs/accuracy.md -f, and review the difference";
}

/// A page of its own, with the shipped scenarios.
class SmallPage : public ::testing::Test {
 protected:
  [[nodiscard]] std::string write(const std::string& sections) const {
    folder_.write(
        "page/page.yaml",
        "title: T\nintroduction: Version {version}.\nscenarios: " + (kRoot / "scenarios").string() +
            "\nprofiles: " + (kRoot / "profiles").string() + "\nsections:\n" + sections);
    return sim::accuracy_page(folder_ / "page", "1.2.3").text;
  }
  TemporaryFolder folder_;
};

TEST_F(SmallPage, SaysWhatIsSimulatedAndHowFarOffItIs) {
  // By the traffic formula 2 + 2 / S, half of it with S = 4: 1.125 model sizes are exact.
  const std::string page = write(R"(- title: S
  blocks:
  - table:
      id: t
      scenario: llama2_7b_4xa100
      schedule: zenflow
      rows:
      - {what: exact, metric: model_sizes, published: 1.125, rounded_to: 0.001, digits: 3}
      - {what: rounded, metric: model_sizes, published: 1.13, rounded_to: 0.01, digits: 3}
      - {what: off, metric: model_sizes, published: 1, counts: true, digits: 3}
  - text: "Of {t.count}: {t.mean}."
)");
  EXPECT_THAT(page, HasSubstr("Version 1.2.3."));
  EXPECT_THAT(page, HasSubstr("| exact | `llama2_7b_4xa100`, `zenflow` | 1.125 | 1.125 | exact |"));
  EXPECT_THAT(page, HasSubstr("| 1.125 | 1.13 | none: it is rounded |"));
  EXPECT_THAT(page, HasSubstr("| off | `llama2_7b_4xa100`, `zenflow` | 1.125 | 1 | +12.5 % |"));
  EXPECT_THAT(page, HasSubstr("Of 1: 12.5 %."));
}

TEST_F(SmallPage, ShowsPublishedRunsAndTheirErrors) {
  folder_.write("page/published/rows.yaml", R"(- id: far
  node: a machine
  model: a model
  schedule: another system
  quantity: epoch
  value: 23
  unit: min
  source: a blog
  how_read: table
  uncertainty: 5 %
  judged: false
  simulated: false
  reason: no profile of it
)");
  const std::string page = write(R"(- title: S
  blocks:
  - published: published/rows.yaml
  - text: "Of {published.count} rows: {published.mean}, {published.worst}."
)");
  EXPECT_THAT(page, HasSubstr("1 row, 0 of them judged"));
  EXPECT_THAT(page, HasSubstr("- `far`: no profile of it\n"));
  EXPECT_THAT(page, HasSubstr("Of 0 rows: 0.0 %, 0.0 %."));
}

TEST_F(SmallPage, ShowsResultsThatItsDataDoesNotPlace) {
  folder_.write("page/further.json",
                file_content(kRoot / "docs/accuracy/host_device_slow_link.json"));
  const std::string page = write("- {title: S, blocks: [{text: nothing}]}\n");
  EXPECT_THAT(page, HasSubstr("## Further runs\n\n### further\n"));
  EXPECT_THAT(page, HasSubstr("**Outside the tolerance**"));
}

/// Nobody makes a result better by editing what it says of itself.
TEST_F(SmallPage, RefusesResultsThatContradictTheirFigures) {
  std::string text = file_content(kRoot / "docs/accuracy/host_device_slow_link.json");
  const std::string outside = "\"within_tolerance\": false";
  ASSERT_NE(text.find(outside), std::string::npos);
  text.replace(text.find(outside), outside.size(), "\"within_tolerance\": true");
  folder_.write("page/further.json", text);
  try {
    (void)write("- {title: S, blocks: [{text: nothing}]}\n");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("summary.within_tolerance: "));
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
  }
}

TEST_F(SmallPage, RefusesNamesThatMeanNothing) {
  for (const auto& [sections, message] :
       {std::pair("- {title: S, blocks: [{text: 'so {what}'}]}\n", "{what}"),
        std::pair("- {title: S, blocks: [{text: 'so {open'}]}\n", "not a number"),
        std::pair("- {title: S, blocks: [{results: missing}]}\n", "missing.json"),
        std::pair("- {title: S, blocks: [{table: {id: t, rows: [{what: w, scenario: "
                  "llama2_7b_4xa100, schedule: zenflow, published: many}]}}]}\n",
                  "published: expected a number"),
        std::pair("- {title: S, blocks: [{table: {id: t, rows: [{what: w, scenario: "
                  "llama2_7b_4xa100, schedule: zenflow, step: 4, published: 1}]}}]}\n",
                  "a window has 4 steps")}) {
    try {
      (void)write(sections);
      ADD_FAILURE() << sections;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
    }
  }
}

}  // namespace
}  // namespace zenflow::testing
