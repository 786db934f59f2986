/// Any names and shapes as the weights of a model that no row knows, and as those of a Llama: a
/// model whose counts are sane, or an input error. A tensor a line: "NAME TYPE SIZE SIZE ...".
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/config/hub/hub_model.h"
#include "sim/config/hub/weight_check.h"
#include "sim/config/hub/weight_model.h"
#include "tests/fuzz/require.h"

namespace {

using zenflow::StoredTensor;
using zenflow::fuzz::require;
using zenflow::sim::ModelSpec;

std::string_view take_word(std::string_view& line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

/// What a header's reader lets pass: known types, and no more bytes than a file may have.
bool read_tensor(std::string_view line, StoredTensor& tensor) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 53;
  tensor.name = take_word(line);
  tensor.type = take_word(line);
  std::uint64_t bytes = zenflow::bytes_of_type(tensor.type);
  if (bytes == 0) return false;
  while (!line.empty()) {
    const std::string_view word = take_word(line);
    std::int64_t size = 0;
    std::from_chars(word.data(), word.data() + word.size(), size);
    if (size < 0 || (size > 0 && bytes > kMostBytes / static_cast<std::uint64_t>(size))) {
      return false;
    }
    tensor.shape.push_back(size);
    bytes *= static_cast<std::uint64_t>(size);
  }
  return true;
}

std::vector<StoredTensor> read_tensors(std::string_view text) {
  std::vector<StoredTensor> tensors;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    StoredTensor tensor;
    if (read_tensor(text.substr(0, end), tensor)) tensors.push_back(std::move(tensor));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const auto by_name = [](const StoredTensor& a, const StoredTensor& b) { return a.name < b.name; };
  std::sort(tensors.begin(), tensors.end(), by_name);
  const auto same_name = [](const StoredTensor& a, const StoredTensor& b) {
    return a.name == b.name;
  };
  tensors.erase(std::unique(tensors.begin(), tensors.end(), same_name), tensors.end());
  return tensors;
}

void check_model(const ModelSpec& model) {
  require(model.parameters() >= 0 && model.parameters() <= 1'000'000'000'000'000,
          "the parameter count is within its limit");
  require(model.layers() > 0 && !model.kinds.empty(), "there are layers");
  require(!model.estimate.empty(), "it says that it is estimated");
  for (const zenflow::sim::Layer& layer : model.kinds) {
    for (const zenflow::sim::Linear& product : layer.products) {
      require(product.in > 0 && product.out > 0 && product.share > 0, "products have sizes");
    }
    for (const zenflow::sim::Attention& one : layer.attention) {
      require(one.heads > 0 && one.kv_heads > 0 && one.head_dim > 0, "attention has heads");
    }
  }
}

template <class Action>
void expect_input_error_at_most(const Action& action) {
  try {
    action();
  } catch (const zenflow::Error& error) {
    require(error.kind() == zenflow::ErrorKind::kInput, "bad weights are bad input");
  }
}

const ModelSpec& llama() {
  static const ModelSpec model = zenflow::sim::read_model(
      zenflow::parse_json(R"({"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2,
          "num_attention_heads": 2, "intermediate_size": 12, "vocab_size": 10,
          "max_position_embeddings": 32})",
                          "config.json"),
      "llama");
  return model;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  zenflow::sim::ModelWeights weights;
  weights.path = "w.safetensors";
  weights.files.push_back({"w.safetensors", 8, read_tensors(text)});
  expect_input_error_at_most([&weights] {
    check_model(zenflow::sim::hub::read_weight_model(zenflow::Node(), weights, "fuzz"));
  });
  expect_input_error_at_most([&weights] {
    zenflow::sim::hub::check_weights(llama(), weights.files, {"w.safetensors", "config.json", 1});
  });
  return 0;
}
