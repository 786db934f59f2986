/// Access to a Hugging Face config.json as the readers of model families need it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/hub/layer_builder.h"
#include "sim/config/reader.h"

namespace zenflow::sim::hub {

// Generous for any model that exists, small enough that no product below overflows:
// a layer has at most 2^45 parameters, all layers together 2^57.
inline constexpr std::int64_t kMaxLayers = 1 << 12;
inline constexpr std::int64_t kMaxHidden = 1 << 18;
inline constexpr std::int64_t kMaxHeads = 1 << 12;
inline constexpr std::int64_t kMaxHeadDim = 1 << 12;
inline constexpr std::int64_t kMaxIntermediate = 1 << 22;
inline constexpr std::int64_t kMaxVocab = 1 << 24;
inline constexpr std::int64_t kMaxPositions = 1 << 26;
inline constexpr std::int64_t kMaxExperts = 1 << 12;

/// What stands on top of the last layer.
enum class Head : std::uint8_t {
  kNone,         ///< "LlamaModel"
  kLanguage,     ///< ForCausalLM, ForConditionalGeneration, LMHeadModel, ForMaskedLM
  kSequence,     ///< a label for a sequence, of a reward model too
  kTokens,       ///< a label for each token
  kAnswer,       ///< ForQuestionAnswering: a start and an end
  kImage,        ///< ForImageClassification
  kPreTraining,  ///< ForPreTraining of encoders: more than the vocabulary, or something else
  kEncoder,      ///< "T5EncoderModel": without its decoder
};

/// A size that a config.json says under one of several names.
using Names = std::initializer_list<std::string_view>;

/// A boolean key, or what holds without one. Without a name it is fixed.
struct Switch {
  std::string_view key;
  bool otherwise = false;
};

/// One map of a config.json: the file's own, or its text_config.
class HubConfig {
 public:
  /// `nested`: sizes may be missing, as transformers fills them in.
  HubConfig(MapReader map, Head head, bool nested = false)
      : map_(std::move(map)), head_(head), nested_(nested) {}

  [[nodiscard]] MapReader& map() { return map_; }
  [[nodiscard]] Head head() const { return head_; }
  [[nodiscard]] bool nested() const { return nested_; }

  /// The first of `names` that is there. Missing: `otherwise`, if it is above 0 and the map is
  /// nested; else an error. Throws Error(kInput) at the value outside [1, limit].
  [[nodiscard]] std::int64_t size(Names names, std::int64_t limit, std::int64_t otherwise = 0);
  /// The same of a size that has a default everywhere: `otherwise` may be 0.
  [[nodiscard]] std::int64_t size_or(Names names, std::int64_t otherwise, std::int64_t limit);
  /// The same, but never 0.
  [[nodiscard]] std::int64_t positive_or(Names names, std::int64_t otherwise, std::int64_t limit);
  /// A size with several names for one attribute: all that are there must say the same.
  [[nodiscard]] std::int64_t same_size(Names names, std::int64_t limit);
  [[nodiscard]] bool is(const Switch& key);
  /// The same, but null is false.
  [[nodiscard]] bool holds(const Switch& key);
  [[nodiscard]] std::string text_or(std::string_view key, std::string_view otherwise);
  [[nodiscard]] double number_or(std::string_view key, double otherwise);
  /// Strings of a list, or nothing if the key is missing.
  [[nodiscard]] std::optional<std::vector<std::string>> texts(std::string_view key);
  /// Whole numbers of a list, or nothing.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> numbers(std::string_view key);
  [[nodiscard]] bool has(std::string_view key) const;
  /// As `is`, of a key that holds false if it is there and null.
  [[nodiscard]] bool is_unless_null(const Switch& key);
  /// Of a map below this one.
  [[nodiscard]] HubConfig below(std::string_view key, Head head);
  /// The same, where everything has a default: of an empty map if the key is missing or null.
  [[nodiscard]] HubConfig below_or_empty(std::string_view key, Head head);
  [[noreturn]] void fail(std::string_view key, const std::string& what) const {
    map_.fail(key, what);
  }
  /// Labels of a classifier: num_labels, or as many as id2label has; two without either.
  [[nodiscard]] std::int64_t labels();
  /// Labels that the map around this one says.
  void take_labels(std::int64_t count) { labels_ = count; }
  /// Labels of ForQuestionAnswering, which needs two: a start and an end.
  [[nodiscard]] std::int64_t answer_labels();
  /// Throws Error(kInput) if `architectures` names another class than `classes`, or `other_classes`
  /// if there are any, with one of `suffixes`.
  void check_class(std::string_view classes, Names suffixes, std::string_view other_classes = {});

 private:
  MapReader map_;
  Head head_;
  bool nested_;
  std::int64_t labels_ = 0;  ///< 0: as this map says
};

/// hidden / heads. Throws Error(kInput) at `hidden_key` if it is no whole number.
[[nodiscard]] std::int64_t head_dim_of(const HubConfig& config, std::string_view hidden_key,
                                       std::int64_t hidden, std::string_view heads_key,
                                       std::int64_t heads);
/// Throws Error(kInput) at `key` unless `kv_heads` divides `heads`.
void check_kv_heads(const HubConfig& config, std::string_view key, std::int64_t kv_heads,
                    std::string_view heads_key, std::int64_t heads);

}  // namespace zenflow::sim::hub
