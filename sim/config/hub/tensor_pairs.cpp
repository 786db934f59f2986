#include "sim/config/hub/tensor_pairs.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "sim/config/hub/weight_tensors.h"

namespace zenflow::sim::hub {
namespace {

/// More pairs than any layer has; of a hostile file they are taken as they come.
constexpr std::size_t kMaxPairs = 1'000'000;
constexpr std::size_t kMaxWhole = 1'000;
constexpr std::size_t kMaxParts = 64;

/// Words for one matrix or vector, the first of them for all.
using Words = std::array<std::string_view, 7>;
constexpr auto kWords = std::to_array<Words>({
    {"q_proj", "query", "q", "wq", "to_q", "q_lin", ""},
    {"k_proj", "key", "k", "wk", "to_k", "k_lin", ""},
    {"v_proj", "value", "v", "wv", "to_v", "v_lin", ""},
    {"o_proj", "out_proj", "o", "wo", "to_out", "out_lin", "dense"},
    {"gate_proj", "w1", "fc11", "weights_in", "", "", ""},
    {"up_proj", "w3", "fc12", "", "", "", ""},
    {"down_proj", "w2", "fc2", "weights_out", "", "", ""},
    {"lm_head", "embed_out", "output", "", "", "", ""},
    {"weight", "gamma", "", "", "", "", ""},
    {"bias", "beta", "", "", "", "", ""},
});

std::string_view common_word(std::string_view word) {
  for (const Words& words : kWords) {
    if (std::find(words.begin(), words.end(), word) != words.end()) return words.front();
  }
  return word;
}

std::vector<std::string_view> common_words(std::string_view name) {
  std::vector<std::string_view> words = components(name);
  for (std::string_view& word : words) word = common_word(word);
  return words;
}

/// For two names of words.
int likeness_of(const std::vector<std::string_view>& a, const std::vector<std::string_view>& b) {
  constexpr int kSuffix = 100;
  const auto end = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend());
  const auto suffix = static_cast<int>(end.first - a.rbegin());
  const auto shared = std::count_if(a.begin(), a.end(), [&b](std::string_view word) {
    return std::find(b.begin(), b.end(), word) != b.end();
  });
  return kSuffix * suffix + static_cast<int>(shared);
}

void pair(LoneTensor& a, LoneTensor& b) {
  a.paired = true;
  b.paired = true;
}

/// Those of one shape, of both sides. The best pairs first; of equals in the order of the lists.
void pair_alike(const std::vector<LoneTensor*>& a, const std::vector<LoneTensor*>& b) {
  if (a.size() * b.size() > kMaxPairs) {
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) pair(*a[i], *b[i]);
    return;
  }
  std::vector<std::vector<std::string_view>> words;
  for (const LoneTensor* one : b) words.push_back(common_words(one->name));
  std::vector<std::tuple<int, std::size_t, std::size_t>> pairs;  // least likeness last
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::vector<std::string_view> own = common_words(a[i]->name);
    for (std::size_t j = 0; j < b.size(); ++j) {
      pairs.emplace_back(-likeness_of(own, words[j]), i, j);
    }
  }
  std::sort(pairs.begin(), pairs.end());
  for (const auto& [unlikeness, i, j] : pairs) {
    if (!a[i]->paired && !b[j]->paired) pair(*a[i], *b[j]);
  }
}

/// With the last two of three dimensions in order, so that a stack and its transpose are the same.
std::vector<std::int64_t> shape_key(const LoneTensor& tensor) {
  std::vector<std::int64_t> key = tensor.shape;
  if (key.size() == 3 && key[1] > key[2]) std::swap(key[1], key[2]);
  return key;
}

void drop_paired(std::vector<LoneTensor*>& tensors) {
  std::erase_if(tensors, [](const LoneTensor* one) { return one->paired; });
}

/// The dimension along which `part` is one of several parts of `whole`, or nothing below 0.
int joined_dimension(const LoneTensor& whole, const LoneTensor& part) {
  if (whole.shape.empty() || whole.shape.size() != part.shape.size()) return -1;
  int found = -1;
  for (std::size_t d = 0; d < whole.shape.size(); ++d) {
    if (whole.shape[d] == part.shape[d]) continue;
    if (found >= 0 || part.shape[d] > whole.shape[d]) return -1;
    found = static_cast<int>(d);
  }
  return found;
}

/// Two or three of `parts` that are all of `whole` along one dimension; empty if there are none.
std::vector<LoneTensor*> parts_of(const LoneTensor& whole, const std::vector<LoneTensor*>& parts) {
  for (int d = 0; d < std::ssize(whole.shape); ++d) {
    const auto at = static_cast<std::size_t>(d);
    std::vector<LoneTensor*> fitting;
    for (LoneTensor* part : parts) {
      if (!part->paired && joined_dimension(whole, *part) == d) fitting.push_back(part);
    }
    if (fitting.size() > kMaxParts) continue;
    const std::int64_t size = whole.shape[at];
    for (std::size_t i = 0; i < fitting.size(); ++i) {
      for (std::size_t j = i + 1; j < fitting.size(); ++j) {
        const std::int64_t two = fitting[i]->shape[at] + fitting[j]->shape[at];
        if (two == size) return {fitting[i], fitting[j]};
        for (std::size_t k = j + 1; k < fitting.size(); ++k) {
          if (two + fitting[k]->shape[at] == size) return {fitting[i], fitting[j], fitting[k]};
        }
      }
    }
  }
  return {};
}

}  // namespace

bool same_shape(const LoneTensor& a, const LoneTensor& b) {
  if (a.shape.empty() || b.shape.empty()) return a.elements == b.elements;
  return shape_key(a) == shape_key(b);
}

int likeness(std::string_view a, std::string_view b) {
  return likeness_of(common_words(a), common_words(b));
}

void pair_same_shapes(std::vector<LoneTensor*>& a, std::vector<LoneTensor*>& b) {
  std::map<std::vector<std::int64_t>, std::pair<std::vector<LoneTensor*>, std::vector<LoneTensor*>>>
      by_shape;
  for (LoneTensor* one : a) by_shape[shape_key(*one)].first.push_back(one);
  for (LoneTensor* one : b) by_shape[shape_key(*one)].second.push_back(one);
  for (const auto& [shape, both] : by_shape) {
    if (!shape.empty()) pair_alike(both.first, both.second);
  }
  drop_paired(a);
  drop_paired(b);
}

void pair_joined(std::vector<LoneTensor*>& whole, std::vector<LoneTensor*>& parts) {
  if (whole.size() > kMaxWhole) return;
  for (LoneTensor* one : whole) {
    const std::vector<LoneTensor*> found = parts_of(*one, parts);
    for (LoneTensor* part : found) pair(*one, *part);
  }
  drop_paired(whole);
  drop_paired(parts);
}

}  // namespace zenflow::sim::hub
