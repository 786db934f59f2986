#include "sim/calibrate/trace/device_match.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

namespace zenflow::sim {
namespace {

struct DeviceName {
  std::string model;   ///< "a100"
  std::string memory;  ///< "80gb"; empty: not said
  bool is_pcie = false;
  bool is_laptop = false;
};

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> found(1);
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      found.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!found.back().empty()) {
      found.emplace_back();
    }
  }
  return found;
}

DeviceName parse(std::string_view text) {
  DeviceName name;
  for (const std::string& word : words(text)) {
    const bool has_digit = std::any_of(word.begin(), word.end(), [](char c) {
      return std::isdigit(static_cast<unsigned char>(c)) != 0;
    });
    if (word == "pcie") name.is_pcie = true;
    if (word == "laptop" || word == "ada") name.is_laptop = true;
    // "GPU 0", "one of 4": a number by itself is a model only if it is long, as of an RTX 3090.
    if (!has_digit || word.size() < 2 || word.starts_with("sxm") || word.starts_with("hbm")) {
      continue;
    }
    if (word.ends_with("gb")) {
      name.memory = word;
    } else if (name.model.empty()) {
      name.model = word;
    }
  }
  return name;
}

}  // namespace

bool same_device(std::string_view a, std::string_view b) {
  const DeviceName first = parse(a);
  const DeviceName second = parse(b);
  const bool memory_agrees =
      first.memory.empty() || second.memory.empty() || first.memory == second.memory;
  return !first.model.empty() && first.model == second.model && memory_agrees &&
         first.is_pcie == second.is_pcie && first.is_laptop == second.is_laptop;
}

}  // namespace zenflow::sim
