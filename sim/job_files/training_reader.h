/// Values of a training file as facts of a job.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "sim/config/reader.h"
#include "sim/job_files/job_facts.h"

namespace zenflow::sim {

/// What `training.lora` says, each value as YAML text; empty: nothing.
struct LoraFact {
  std::int64_t rank = 0;
  std::string targets;
  bool by_name = false;  ///< "all-linear": names of the modules that the program finds
  std::string base;      ///< how the frozen weights are stored
  std::string dropout;   ///< "0.05"
  bool dora = false;
  std::string saved{};       ///< modules_to_save
  std::string parameters{};  ///< target_parameters
};

/// Whether Python takes the value for true: neither missing, empty, 0, false nor a word for none.
[[nodiscard]] bool is_on(const Node* value);

/// A DeepSpeed configuration as the text of a fact.
[[nodiscard]] std::string one_line_json(const Node& node);

/// A training file: many keys, of which some matter here.
class TrainingReader {
 public:
  TrainingReader(const Node& root, const std::filesystem::path& file, JobFacts& facts)
      : map_(root, ""), file_(file), facts_(facts) {}

  [[nodiscard]] JobFacts& facts() { return facts_; }
  [[nodiscard]] const Node& root() const { return map_.node(); }
  [[nodiscard]] const std::filesystem::path& file() const { return file_; }
  [[nodiscard]] std::optional<ValueReader> optional(const char* key) { return map_.optional(key); }
  /// The key stands there, if only without a value.
  [[nodiscard]] bool names(const char* key) const { return root().find(key) != nullptr; }

  void whole_number(const char* key, const char* path);
  [[nodiscard]] std::int64_t whole_number_or(const char* key, std::int64_t otherwise);
  /// As YAML 1.1 has it, or a word of these programs' own that means yes.
  [[nodiscard]] bool flag(const char* key);
  void checkpointing(const char* key);
  /// The first of these that is on; whether one was.
  bool precision(std::initializer_list<const char*> bf16, std::initializer_list<const char*> fp16);
  void model(const char* key);
  /// A path, a name in `built_in`, or the configuration itself.
  void deepspeed(const char* key, std::optional<std::string> (*built_in)(const std::string&));
  [[nodiscard]] std::filesystem::path beside(const ValueReader& value,
                                             const std::string& name) const;

  /// What LoRA adapts: "all-linear" for the program's word for that, a list of names, or one
  /// regular expression.
  [[nodiscard]] std::string targets(const char* key, std::initializer_list<std::string_view> all,
                                    const std::string& otherwise);
  /// A list of names, also where they stand in one text with commas between; empty: none.
  [[nodiscard]] std::string module_names(const char* key);
  /// That towers are not trained, if none of these keys is there and off.
  void frozen_towers(std::initializer_list<const char*> keys, const std::string& by);
  /// Unless a flag gives the adapter.
  void lora(const LoraFact& lora, const Location& at);

 private:
  MapReader map_;
  const std::filesystem::path& file_;
  JobFacts& facts_;
};

}  // namespace zenflow::sim
