// That the Python safetensors library reads what the runtime writes, value for value. (The reverse
// is in model_reference_test, whose files it wrote.) Opt-in: CMake's ZENFLOW_REFERENCE_PYTHON names
// an interpreter with torch, transformers and safetensors.
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "runtime/model/weight_file.h"
#include "tests/support/model_step.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

const char* const kGpt2 = R"({"model_type": "gpt2", "vocab_size": 7, "n_embd": 6, "n_layer": 2,
    "n_head": 2, "n_positions": 5})";

std::string output_of(const std::string& command) {
  std::string text;
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) text += line.data();
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return text;
}

/// One line a tensor, in the order of names: name, type, shape, elements in hexadecimal.
std::string expected_lines(const ParameterTable& table, const testing::TensorStore& weights,
                           const std::string& type) {
  std::map<std::string, std::string> lines;
  for (std::size_t i = 0; i < table.parameters.size(); ++i) {
    const Parameter& p = table.parameters[i];
    std::vector<std::int64_t> shape = {p.columns};
    if (p.is_matrix) shape.insert(shape.begin(), p.rows);
    std::ostringstream line;
    line << p.name << " torch." << type << " " << shape_text(shape);
    for (const float value : weights.values(i)) {
      line << " " << std::hexfloat << static_cast<double>(value);
    }
    lines[p.name] = line.str();
  }
  std::string text;
  for (const auto& [name, line] : lines) text += line + "\n";
  return text;
}

TEST(SafetensorsPython, ReadsWhatTheRuntimeWrites) {
  const testing::TemporaryFolder folder;
  const TransformerConfig config = testing::model_config(kGpt2);
  const ParameterTable table = parameter_table(config.model, config.task);
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    testing::ModelUnderTest model(config, 1, 4, type);
    model.initialize(type);
    const std::filesystem::path path = folder / "model.safetensors";
    write_weights(
        path, table, type, [&](std::size_t i) { return model.weights.constant()[i]; }, true);
    const std::string script = ZENFLOW_SOURCE_DIR "/tests/data/model/make_reference.py";
    EXPECT_EQ(output_of(ZENFLOW_REFERENCE_PYTHON " -B " + script + " --read " + path.string()),
              expected_lines(table, model.weights,
                             type == ElementType::kFloat32 ? "float32" : "bfloat16"));
  }
}

}  // namespace
}  // namespace zenflow::runtime
