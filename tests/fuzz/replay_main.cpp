/// Runs a fuzz target without libFuzzer: `NAME_replay CORPUS_DIR MUTATIONS`.
///
/// Every seed file, then MUTATIONS variations of them. The same on every machine, so that a
/// failure here is reproducible; the failing input is left in the working directory.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

std::vector<std::string> read_seeds(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const std::filesystem::path& path : paths) {
    std::ifstream stream(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  if (seeds.empty()) throw std::runtime_error("no seeds in " + directory.string());
  return seeds;
}

/// Below `limit`, which is at least 1. Not a std distribution: theirs differ between libraries.
std::size_t below(std::mt19937_64& random, std::size_t limit) {
  return static_cast<std::size_t>(random() % limit);
}

void mutate(std::string& text, const std::vector<std::string>& seeds, std::mt19937_64& random) {
  constexpr std::string_view kSyntax = "{}[]:,\"'\\-+.0123456789eE \n\t#&*!|>?%@~null";
  const std::size_t at = below(random, text.size() + 1);
  const std::size_t length = below(random, std::min<std::size_t>(text.size() - at, 32) + 1);
  switch (below(random, 7)) {
    case 0:
      if (at < text.size()) text[at] = static_cast<char>(random() & 0xFFU);
      break;
    case 1:
      if (at < text.size()) text[at] = kSyntax[below(random, kSyntax.size())];
      break;
    case 2:
      text.insert(at, 1, kSyntax[below(random, kSyntax.size())]);
      break;
    case 3:
      text.erase(at, length);
      break;
    case 4:
      text.insert(at, text.substr(at, length));
      break;
    case 5:
      text.resize(at);
      break;
    default: {
      const std::string& other = seeds[below(random, seeds.size())];
      const std::size_t from = below(random, other.size() + 1);
      text.insert(at, other.substr(from, below(random, 64)));
    }
  }
}

bool run_one(const std::string& input, const std::string& label) {
  try {
    const std::vector<std::uint8_t> bytes(input.begin(), input.end());
    static_cast<void>(LLVMFuzzerTestOneInput(bytes.data(), bytes.size()));
    return true;
  } catch (const std::exception& error) {
    const std::string file = "failing-" + label + ".bin";
    std::ofstream(file, std::ios::binary) << input;
    std::cerr << label << ": " << error.what() << "; the input is in " << file << "\n";
    return false;
  }
}

int replay(const std::filesystem::path& corpus, std::size_t mutations) {
  const std::vector<std::string> seeds = read_seeds(corpus);
  bool is_good = true;
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    is_good = run_one(seeds[i], "seed-" + std::to_string(i)) && is_good;
  }
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < mutations && is_good; ++i) {
    std::string text = seeds[i % seeds.size()];
    const std::size_t edits = 1 + below(random, 6);
    for (std::size_t edit = 0; edit < edits; ++edit) mutate(text, seeds, random);
    is_good = run_one(text, "mutation-" + std::to_string(i));
  }
  return is_good ? 0 : 1;
}

}  // namespace

int main(int count, char** values) try {
  const std::vector<std::string> arguments(values, values + count);
  if (arguments.size() != 3) {
    std::cerr << "usage: replay CORPUS_DIR MUTATIONS\n";
    return 2;
  }
  return replay(arguments[1], std::stoul(arguments[2]));
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 2;
}
