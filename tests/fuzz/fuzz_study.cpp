/// A study of zenflow-tune with a change and then any bytes in any places: one that a search can go
/// on from, or an input error. The first byte chooses the change; every three that follow are a
/// place and what is written there.
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <sqlite3.h>

#include "sim/tune/candidates.h"
#include "sim/tune/study.h"
#include "tests/fuzz/expect_input_error.h"
#include "tests/fuzz/tuned_scenario.h"

namespace {

using namespace zenflow;
using fuzz::require;

constexpr std::array kChanges = {
    "SELECT 1",
    "DROP TABLE counts",
    "DROP TABLE evaluations",
    "DELETE FROM study",
    "DELETE FROM evaluations",
    "UPDATE evaluations SET numbers = zeroblob(8)",
    "UPDATE evaluations SET numbers = CAST(substr(numbers, 1, 64) || x'FFFFFFFFFFFFFFFF' || "
    "substr(numbers, 73) AS BLOB)",
    "UPDATE evaluations SET setting = NULL",
    "UPDATE study SET value = '3' WHERE key = 'format'",
    "CREATE VIEW extra AS SELECT * FROM study",
    "CREATE TRIGGER extra AFTER INSERT ON evaluations BEGIN DELETE FROM study; END",
    "ALTER TABLE evaluations ADD COLUMN extra GENERATED ALWAYS AS (hex(numbers))",
    "CREATE INDEX extra ON evaluations (numbers)",
};

constexpr const char* kIdentity = "fuzz";
constexpr const char* kName = "study.sqlite";

sim::SearchCounts counts_of(std::uint64_t points) {
  sim::SearchCounts counts;
  counts.points = points;
  counts.simulated = points;
  return counts;
}

struct Searched {
  fuzz::ScratchFolder folder;
  sim::LoadedRequest loaded = fuzz::small_request(fuzz::load_job(folder), {});
  sim::Candidates candidates{loaded.request};

  [[nodiscard]] std::filesystem::path path() const { return folder.path() / kName; }
  /// What another input left, too.
  void remove() const {
    for (const char* end : {"", "-wal", "-shm", "-journal"}) {
      std::error_code ignored;
      std::filesystem::remove(path().string() + end, ignored);
    }
  }
  /// A whole study after one of the changes.
  [[nodiscard]] std::string image(const char* change) const {
    remove();
    {
      sim::Study study(path(), kIdentity, candidates);
      sim::Evaluation evaluation;
      evaluation.step_time = 1e9;
      evaluation.staleness = 7;
      study.store({{0, evaluation}, {1, evaluation}});
      study.record(counts_of(2));
    }
    sqlite3* database = nullptr;
    sqlite3_open(path().c_str(), &database);
    sqlite3_exec(database, "PRAGMA journal_mode=DELETE", nullptr, nullptr, nullptr);
    const bool is_changed = sqlite3_exec(database, change, nullptr, nullptr, nullptr) == SQLITE_OK;
    sqlite3_close(database);
    require(is_changed, std::string("a change can be made: ") + change);
    std::ifstream stream(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }
};

void check(const Searched& searched) {
  sim::Study study(searched.path(), kIdentity, searched.candidates);
  const std::uint64_t points = searched.candidates.request().space.size();
  constexpr std::uint64_t kAsked = 4;  // two are in a whole study
  std::uint64_t found = 0;
  for (std::uint64_t i = 0; i < kAsked; ++i) found += study.find(i) ? 1U : 0U;
  require(found <= study.found(), "no more is found than there was");
  sim::Evaluation evaluation;
  evaluation.step_time = 2e9;
  study.store({{0, evaluation}});
  study.record(counts_of(points));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Searched kSearched;
  static const std::vector<std::string> kImages = [] {
    std::vector<std::string> images;
    for (const char* change : kChanges) images.push_back(kSearched.image(change));
    return images;
  }();
  std::string bytes = kImages[size == 0 ? 0 : data[0] % kImages.size()];
  for (std::size_t i = 1; i + 2 < size; i += 3) {
    const std::size_t at = (static_cast<std::size_t>(data[i]) << 8U) | data[i + 1];
    bytes[at % bytes.size()] = static_cast<char>(data[i + 2]);
  }
  // An odd length cuts the file.
  if (size % 4 == 3) bytes.resize(bytes.size() * data[size - 1] / 256 + 1);
  kSearched.remove();
  static_cast<void>(kSearched.folder.write(kName, bytes));
  fuzz::is_taken([] { check(kSearched); });
  return 0;
}
