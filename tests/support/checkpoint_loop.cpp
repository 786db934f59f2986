// Saves checkpoints until it is killed: checkpoint_loop DIRECTORY. Goes on from the newest one.
// After each save it writes the step, 8 bytes, to its output.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "runtime/checkpoint/checkpoint_directory.h"
#include "sim/base/error.h"
#include "tests/support/checkpoint_files.h"

int main(int count, char** arguments) {
  using zenflow::testing::ToyState;
  if (count != 2) return 2;
  constexpr std::size_t kWeights = 50'000;
  try {
    const std::filesystem::path path = arguments[1];
    std::optional<std::uint64_t> resumed;
    if (std::filesystem::is_directory(path)) {
      if (const auto latest = zenflow::runtime::latest_valid(path); latest.valid) {
        resumed = latest.valid->step;
      }
    }
    zenflow::runtime::CheckpointDirectory directory(path, 2, resumed);
    for (std::uint64_t step = resumed.value_or(0) + 1;; ++step) {
      directory.save(step, [step](zenflow::runtime::CheckpointWriter& writer) {
        ToyState(step, kWeights).write(writer);
      });
      if (std::fwrite(&step, sizeof step, 1, stdout) != 1 || std::fflush(stdout) != 0) return 1;
    }
  } catch (const zenflow::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
