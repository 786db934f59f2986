#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/config/reader.h"
#include "sim/job_files/job_inputs.h"

namespace zenflow::sim {
namespace {

using Words = std::set<std::string>;

/// "NVIDIA A100-SXM4-80GB" is a100, sxm, 80g. What every name has, and what makers add, is left
/// out.
Words words_of(const std::string& text) {
  static const std::map<std::string, std::string> kSame = {
      {"sxm2", "sxm"},   {"sxm3", "sxm"}, {"sxm4", "sxm"}, {"sxm5", "sxm"},     {"hbm3", "sxm"},
      {"nvidia", ""},    {"geforce", ""}, {"tesla", ""},   {"gpu", ""},         {"generation", ""},
      {"blackwell", ""}, {"server", ""},  {"edition", ""}, {"workstation", ""}, {"hbm2", ""},
      {"hbm2e", ""},     {"hbm3e", ""},   {"memory", ""},  {"rtx", ""},         {"graphics", ""}};
  Words words;
  std::string word;
  const auto finish = [&words, &word] {
    // "80gb" and "80gib" are 80g.
    for (const char* end : {"gib", "gb"}) {
      const std::string unit = end;
      if (word.size() > unit.size() && word.ends_with(unit) &&
          std::isdigit(static_cast<unsigned char>(word.front())) != 0) {
        word = word.substr(0, word.size() - unit.size()) + "g";
      }
    }
    const auto same = kSame.find(word);
    if (same != kSame.end()) word = same->second;
    if (word.starts_with("rtx") && word.size() > 3) word.erase(0, 3);
    if (!word.empty()) words.insert(word);
    word.clear();
  };
  for (const char c : text) {
    const auto one = static_cast<unsigned char>(c);
    if (std::isalnum(one) != 0) {
      word += static_cast<char>(std::tolower(one));
    } else {
      finish();
    }
  }
  finish();
  return words;
}

bool has_all(const Words& words, const Words& wanted) {
  return std::includes(words.begin(), words.end(), wanted.begin(), wanted.end());
}

struct Match {
  std::string key;
  double memory = 0;
  bool sxm = false;
  bool whole = false;
};

Match match_of(const CatalogueGpu& card, const Words& wanted, bool& found) {
  Match match{card.key, card.gpu.memory.value(), card.key.find("sxm") != std::string::npos, false};
  std::vector<std::string> names = card.also_known_as;
  names.push_back(card.gpu.name);
  names.push_back(card.key);
  for (const std::string& name : names) {
    const Words words = words_of(name);
    found = found || has_all(words, wanted);
    match.whole = match.whole || words == wanted;
  }
  return match;
}

}  // namespace

std::string find_gpu(const GpuCatalogue& catalogue, const std::string& text, const Location& at,
                     std::vector<std::string>& others) {
  const Words wanted = words_of(text);
  const std::vector<std::string> keys = catalogue.keys();
  std::vector<Match> matches;
  for (const std::string& key : keys) {
    const Node entry = catalogue.load(key, at, "gpu").second;
    bool found = false;
    Match match = match_of(read_catalogue_gpu(entry, key), wanted, found);
    if (found && !wanted.empty()) matches.push_back(std::move(match));
  }
  if (matches.empty()) {
    std::string as_key = text;  // "RTX 4091" is near to rtx_4090
    for (char& c : as_key) {
      const auto one = static_cast<unsigned char>(c);
      c = std::isalnum(one) != 0 ? static_cast<char>(std::tolower(one)) : '_';
    }
    fail_at(at, "gpu",
            fmt::format("no card \"{}\"{}; known: {}", text, suggestion(as_key, keys),
                        fmt::join(keys, ", ")));
  }
  const bool any_whole =
      std::any_of(matches.begin(), matches.end(), [](const Match& one) { return one.whole; });
  if (any_whole) std::erase_if(matches, [](const Match& one) { return !one.whole; });
  std::stable_sort(matches.begin(), matches.end(), [](const Match& a, const Match& b) {
    return a.sxm != b.sxm ? a.sxm : a.memory > b.memory;
  });
  for (std::size_t i = 1; i < matches.size(); ++i) others.push_back(matches[i].key);
  return matches.front().key;
}

}  // namespace zenflow::sim
