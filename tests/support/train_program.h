/// zenflow-train on a tiny model and text, for tests that meet it as its user does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "tests/support/mix.h"
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::testing {

/// The flag's value replaced, or flag and value added.
inline Arguments with(Arguments arguments, const std::string& flag, const std::string& value) {
  const auto at = std::find(arguments.begin(), arguments.end(), flag);
  if (at == arguments.end()) return arguments + Arguments{flag, value};
  *(at + 1) = value;
  return arguments;
}

constexpr const char* kTinyLlama = R"({"model_type": "llama", "vocab_size": 258, "hidden_size": 16,
"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 24,
"max_position_embeddings": 32, "rms_norm_eps": 1e-5, "tie_word_embeddings": false})";
constexpr const char* kTinyGpt2 = R"({"model_type": "gpt2", "vocab_size": 258, "n_embd": 16,
"n_layer": 1, "n_head": 2, "n_positions": 32, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
"attn_pdrop": 0.0})";

/// Words in an order that no model can foresee, the same in every run.
inline std::string some_text(std::size_t bytes) {
  const char* const words[] = {"the ", "plot ", "film ", "moves ", "slowly ", "through ", "night "};
  std::string text;
  for (std::uint64_t i = 0; text.size() < bytes; ++i) text += words[mix(i) % std::size(words)];
  return text;
}

inline std::string little_endian(std::uint64_t value, std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

/// Zlib's of the bytes, as four.
inline std::string checksum_of(const std::string& bytes) {
  return little_endian(
      ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())), 4);
}

/// The format of docs/training.md, two bytes a token.
inline std::string token_file(const std::vector<std::uint64_t>& ids) {
  std::string tokens;
  for (const std::uint64_t id : ids) tokens += little_endian(id, 2);
  const std::string head = "ZFTOKEN\n" + little_endian(1, 4) + little_endian(2, 4) +
                           little_endian(ids.size(), 8) + checksum_of(tokens);
  return head + checksum_of(head) + tokens;
}

class TrainProgram : public ::testing::Test {
 protected:
  TrainProgram() {
    folder_.write("llama.json", kTinyLlama);
    folder_.write("gpt2.json", kTinyGpt2);
    folder_.write("text.txt", some_text(3000));
  }

  /// Model, data and sizes; one thread each, because these models have nothing to divide.
  [[nodiscard]] static Arguments basic() {
    return {"--model",
            "llama.json",
            "--data",
            "text.txt",
            "--sequence-length",
            "8",
            "--threads",
            "1",
            "--optimizer-threads",
            "1"};
  }
  [[nodiscard]] Surroundings around() const { return {.folder = folder_.path()}; }

  [[nodiscard]] Outcome run(const Arguments& arguments) const {
    return run_in(around(), arguments);
  }
  [[nodiscard]] static Outcome run_in(const Surroundings& surroundings,
                                      const Arguments& arguments) {
    return run_program(Arguments{ZENFLOW_TRAIN} + arguments, surroundings);
  }
  /// Must succeed; results[0] of its document.
  [[nodiscard]] nlohmann::json result(const Arguments& arguments) const {
    const Outcome outcome = run(arguments + Arguments{"--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    if (outcome.code != 0) return {};
    return nlohmann::json::parse(outcome.out).at("results").at(0);
  }

  /// Exit 2 (or `code`) before anything is written, with nothing on standard output.
  void expect_refused(const Arguments& arguments, const ::testing::Matcher<std::string>& message,
                      int code = 2) const {
    const std::set<std::string> before = files();
    const Outcome outcome = run(arguments);
    std::string shown;
    for (const std::string& one : arguments) shown += one + " ";
    EXPECT_EQ(outcome.code, code) << shown << outcome.err;
    EXPECT_EQ(outcome.out, "") << shown;
    EXPECT_THAT(outcome.err, ::testing::AllOf(::testing::StartsWith("zenflow-train: "), message))
        << shown;
    EXPECT_EQ(files(), before) << shown;
  }
  /// basic() and more flags.
  void expect_refused_with(const Arguments& more, const ::testing::Matcher<std::string>& message,
                           int code = 2) const {
    expect_refused(basic() + more, message, code);
  }

  /// Names of all files below the folder.
  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file()) {
        names.insert(std::filesystem::relative(entry.path(), folder_.path()).generic_string());
      }
    }
    return names;
  }
  [[nodiscard]] std::string content(const std::string& name) const {
    return file_content(folder_ / name);
  }

  /// Steps of the checkpoints in a folder that may not be there yet, ascending.
  [[nodiscard]] std::vector<int> checkpoints(const std::string& directory) const {
    std::vector<int> steps;
    std::error_code error;
    std::filesystem::directory_iterator it(folder_ / directory, error);
    for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
      const std::string name = it->path().filename().string();
      const std::string prefix = "checkpoint-";
      const bool whole = name.starts_with(prefix) &&
                         name.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
      if (whole) steps.push_back(std::stoi(name.substr(prefix.size())));
    }
    std::sort(steps.begin(), steps.end());
    return steps;
  }
  [[nodiscard]] int newest(const std::string& directory) const {
    const std::vector<int> steps = checkpoints(directory);
    return steps.empty() ? 0 : steps.back();
  }
  void flip_bit(const std::string& name, std::size_t byte) const {
    std::string bytes = content(name);
    ASSERT_LT(byte, bytes.size());
    bytes[byte] = static_cast<char>(bytes[byte] ^ 4);
    folder_.write(name, bytes);
  }
  void truncate(const std::string& name, std::size_t bytes) const {
    std::filesystem::resize_file(folder_ / name, bytes);
  }

  TemporaryFolder folder_;
};

}  // namespace zenflow::testing
