/// Any bytes as a config.json: a model whose counts are sane, or an input error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/config/hub/hub_model.h"
#include "sim/model/model_spec.h"
#include "tests/fuzz/check_tree.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using zenflow::fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const zenflow::sim::ModelSpec model =
        zenflow::sim::read_model(zenflow::parse_json(text, "config.json"), "fuzz");
    require(model.parameters() > 0 && model.parameters() <= 1'000'000'000'000'000,
            "the parameter count is within its limit");
    require(model.trained_in_matrices() <= model.parameters(), "matrices are part of the model");
    require(model.kv_heads == 0 || model.heads % model.kv_heads == 0, "kv heads divide heads");
    require(model.layers() > 0 && !model.kinds.empty(), "there are layers");
  } catch (const zenflow::Error& error) {
    require(error.kind() == zenflow::ErrorKind::kInput, "bad text is bad input");
  }
  return 0;
}
