#include "sim/config/hub/hub_model.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/config/hub/decoder.h"
#include "sim/config/hub/description.h"
#include "sim/config/hub/encoder_decoders.h"
#include "sim/config/hub/encoders.h"
#include "sim/config/hub/hub_config.h"
#include "sim/config/hub/hybrids.h"
#include "sim/config/hub/model_files.h"
#include "sim/config/hub/older_decoders.h"
#include "sim/config/hub/towers.h"
#include "sim/config/reader.h"

namespace zenflow::sim {
namespace {

using hub::DecoderRow;
using hub::Head;
using hub::HubConfig;

/// Leaves room in int64 for the bytes of weights, gradients and optimizer states.
constexpr std::int64_t kMaxParameters = 1'000'000'000'000'000;

/// A family with a reader of its own.
struct FamilyRow {
  std::string_view type;
  std::string_view classes;  ///< prefix of its classes' names
  void (*read)(HubConfig& config, ModelSpec& model);
  std::string_view other_classes = {};  ///< transformers' own, where they are another family's
};

constexpr auto kFamilies = std::to_array<FamilyRow>({
    {"gpt2", "GPT2", hub::read_gpt2},
    {"opt", "OPT", hub::read_opt},
    {"biogpt", "BioGpt", hub::read_biogpt},
    {"xglm", "XGLM", hub::read_xglm},
    {"openai-gpt", "OpenAIGPT", hub::read_openai_gpt},
    {"bloom", "Bloom", hub::read_bloom},
    {"falcon", "Falcon", hub::read_falcon},
    {"gpt_neox", "GPTNeoX", hub::read_gpt_neox},
    {"gptj", "GPTJ", hub::read_gptj},
    {"codegen", "CodeGen", hub::read_codegen},
    {"gpt_neo", "GPTNeo", hub::read_gpt_neo},
    {"gpt_bigcode", "GPTBigCode", hub::read_gpt_bigcode},
    {"phi", "Phi", hub::read_phi},
    {"stablelm", "StableLm", hub::read_stablelm},
    {"persimmon", "Persimmon", hub::read_persimmon},
    {"mpt", "Mpt", hub::read_mpt},
    {"dbrx", "Dbrx", hub::read_dbrx},
    {"internlm3", "InternLM3", hub::read_internlm3, "Llama"},
    {"bert", "Bert", hub::read_bert},
    {"ernie", "Ernie", hub::read_ernie},
    {"megatron-bert", "MegatronBert", hub::read_megatron_bert},
    {"roberta", "Roberta", hub::read_roberta},
    {"xlm-roberta", "XLMRoberta", hub::read_xlm_roberta},
    {"xlm-roberta-xl", "XLMRobertaXL", hub::read_xlm_roberta_xl},
    {"data2vec-text", "Data2VecText", hub::read_data2vec_text},
    {"roberta-prelayernorm", "RobertaPreLayerNorm", hub::read_roberta_prelayernorm},
    {"esm", "Esm", hub::read_esm},
    {"eurobert", "EuroBert", hub::read_eurobert},
    {"camembert", "Camembert", hub::read_camembert},
    {"distilbert", "DistilBert", hub::read_distilbert},
    {"electra", "Electra", hub::read_electra},
    {"albert", "Albert", hub::read_albert},
    {"deberta-v2", "DebertaV2", hub::read_deberta_v2},
    {"modernbert", "ModernBert", hub::read_modernbert},
    {"nomic_bert", "NomicBert", hub::read_nomic_bert},
    {"mpnet", "MPNet", hub::read_mpnet},
    {"vit", "ViT", hub::read_vit},
    {"dinov2", "Dinov2", hub::read_dinov2},
    {"clip_vision_model", "CLIPVision", hub::read_clip_vision},
    {"clip_text_model", "CLIPText", hub::read_clip_text},
    {"siglip_vision_model", "SiglipVision", hub::read_siglip_vision},
    {"siglip_text_model", "SiglipText", hub::read_siglip_text},
    {"t5", "T5", hub::read_t5},
    {"mt5", "MT5", hub::read_mt5},
    {"umt5", "UMT5", hub::read_umt5},
    {"bart", "Bart", hub::read_bart},
    {"mbart", "MBart", hub::read_mbart},
    {"pegasus", "Pegasus", hub::read_pegasus},
    {"m2m_100", "M2M100", hub::read_m2m_100},
    {"marian", "Marian", hub::read_marian},
    {"blenderbot", "Blenderbot", hub::read_blenderbot},
    {"blenderbot-small", "BlenderbotSmall", hub::read_blenderbot_small},
    {"plbart", "PLBart", hub::read_plbart},
    {"mvp", "Mvp", hub::read_mvp},
    {"whisper", "Whisper", hub::read_whisper},
    {"mamba", "Mamba", hub::read_mamba},
    {"falcon_mamba", "FalconMamba", hub::read_falcon_mamba},
    {"mamba2", "Mamba2", hub::read_mamba2},
    {"nemotron_h", "NemotronH", hub::read_nemotron_h},
    {"recurrent_gemma", "RecurrentGemma", hub::read_recurrent_gemma},
    {"llava", "Llava", hub::read_llava},
    {"llava_next", "LlavaNext", hub::read_llava_next},
    {"mistral3", "Mistral3", hub::read_mistral3},
    {"gemma3", "Gemma3", hub::read_gemma3},
    {"paligemma", "PaliGemma", hub::read_paligemma},
    {"idefics3", "Idefics3", hub::read_idefics3},
    {"smolvlm", "SmolVLM", hub::read_smolvlm},
    {"internvl", "InternVL", hub::read_internvl},
    {"qwen2_vl", "Qwen2VL", hub::read_qwen2_vl},
    {"qwen2_5_vl", "Qwen2_5_VL", hub::read_qwen2_5_vl},
    {"qwen3_vl", "Qwen3VL", hub::read_qwen3_vl},
    {"qwen3_vl_moe", "Qwen3VLMoe", hub::read_qwen3_vl_moe},
    {"qwen3_5", "Qwen3_5", hub::read_qwen3_5},
    {"qwen3_5_moe", "Qwen3_5Moe", hub::read_qwen3_5_moe},
    {"llama4", "Llama4", hub::read_llama4},
    {"mllama", "Mllama", hub::read_mllama},
    {"qwen2_audio", "Qwen2Audio", hub::read_qwen2_audio},
});

struct NamedHead {
  std::string_view suffix;
  Head head;
};
constexpr auto kHeads =
    std::to_array<NamedHead>({{"ForCausalLM", Head::kLanguage},
                              {"LMHeadModel", Head::kLanguage},
                              {"MTModel", Head::kLanguage},
                              {"ForConditionalGeneration", Head::kLanguage},
                              {"ForMaskedLM", Head::kLanguage},
                              {"ForSequenceClassification", Head::kSequence},
                              {"ForTokenClassification", Head::kTokens},
                              {"ForQuestionAnswering", Head::kAnswer},
                              {"ForImageClassification", Head::kImage},
                              {"ForPreTraining", Head::kPreTraining},
                              {"EncoderModel", Head::kEncoder},
                              {"TextForSequenceClassification", Head::kSequence},
                              {"TextModel", Head::kNone},
                              {"Model", Head::kNone}});

/// What names of a family's classes begin with. The second is empty where there is one only.
using Prefixes = std::array<std::string_view, 2>;

/// The head that the class's name ends in. Throws if it is no class of the family.
Head head_of(const ValueReader& value, const Prefixes& prefixes) {
  const std::string name = value.string();
  std::string known;
  for (const std::string_view classes : prefixes) {
    if (classes.empty()) continue;
    for (const NamedHead& one : kHeads) {
      const std::string full = fmt::format("{}{}", classes, one.suffix);
      if (name == full) return one.head;
      known += (known.empty() ? "" : ", ") + full;
    }
  }
  value.fail(
      fmt::format("no class of this model_type that is known: \"{}\"; known: {}", name, known));
}

/// Classes of the repository's own code would be other networks than those of transformers.
void check_auto_map(MapReader& root, const Prefixes& prefixes) {
  const auto map = root.optional_map("auto_map");
  if (!map) return;
  for (const auto& [key, key_at, node] : map->node().entries) {
    if (!key.starts_with("AutoModel") || !node.is_scalar()) continue;
    const std::string_view name = std::string_view(node.scalar).substr(node.scalar.rfind('.') + 1);
    if (std::any_of(prefixes.begin(), prefixes.end(), [name](std::string_view classes) {
          return !classes.empty() && name.starts_with(classes);
        })) {
      continue;
    }
    fail_at(node.at, "auto_map." + key,
            fmt::format("\"{}\" is code of the model's repository that is not known here",
                        node.scalar));
  }
}

void check_plain(MapReader& root) {
  for (const std::string_view key : {"text_config", "vision_config", "audio_config"}) {
    if (const auto tower = root.optional(key)) {
      tower->fail("a model of several towers, which the model_type is not");
    }
  }
}

Head read_head(MapReader& root, const Prefixes& prefixes) {
  const auto architectures = root.optional("architectures");
  if (!architectures) return Head::kLanguage;
  const std::vector<ValueReader> items = architectures->items();
  return items.empty() ? Head::kLanguage : head_of(items.front(), prefixes);
}

[[noreturn]] void fail_unknown(const ValueReader& type) {
  type.fail(
      fmt::format("unknown model_type \"{}\": script/describe-model writes a description of it to "
                  "give in its place; known: {}",
                  type.string(), fmt::join(known_model_types(), ", ")));
}

}  // namespace

// Layer by layer first, so that no sum overflows.
void check_model_size(const ModelSpec& model, const Node& root) {
  constexpr std::int64_t kMaxTensors = 1'000'000;  // of all layers: schedules visit each
  std::int64_t widest = 0;
  for (const Layer& layer : model.kinds) widest = std::max(widest, std::ssize(layer.tensors));
  if (widest * model.layers() > kMaxTensors) {
    fail_at(root.at, "", fmt::format("expected a model of at most {} tensors", kMaxTensors));
  }
  std::int64_t most = std::max(model.embedding.parameters(), model.head.parameters());
  for (const Layer& layer : model.kinds) most = std::max(most, layer.parameters());
  if (most <= kMaxParameters) most = model.parameters();
  if (most <= kMaxParameters) return;
  fail_at(root.at, "",
          fmt::format("expected a model of at most {} parameters, found {}", kMaxParameters, most));
}

std::vector<std::string> known_model_types() {
  std::vector<std::string> types;
  for (const DecoderRow& row : hub::decoder_rows()) types.emplace_back(row.type);
  for (const FamilyRow& row : kFamilies) types.emplace_back(row.type);
  std::sort(types.begin(), types.end());
  return types;
}

bool is_known_model_type(std::string_view type) {
  return hub::find_decoder_row(type) != nullptr ||
         std::any_of(kFamilies.begin(), kFamilies.end(),
                     [type](const FamilyRow& one) { return one.type == type; });
}

ModelSpec read_model(const Node& root, const std::string& name, HeadSource source) {
  if (hub::is_description(root)) {
    ModelSpec described = hub::read_description(root, name);
    check_model_size(described, root);
    return described;
  }
  MapReader map(root, "");
  const ValueReader type = map.require("model_type");
  ModelSpec model;
  model.name = name;
  model.type = type.string();
  const DecoderRow* decoder = hub::find_decoder_row(model.type);
  const auto* family =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&model](const FamilyRow& one) { return one.type == model.type; });
  if (decoder == nullptr && family == kFamilies.end()) fail_unknown(type);
  const Prefixes prefixes = decoder != nullptr ? Prefixes{decoder->classes, decoder->other_classes}
                                               : Prefixes{family->classes, family->other_classes};
  const Head head = source == HeadSource::kLanguage ? Head::kLanguage : read_head(map, prefixes);
  check_auto_map(map, prefixes);
  if (decoder != nullptr) {
    check_plain(map);
    HubConfig config(std::move(map), head);
    hub::read_decoder(config, *decoder, hub::decoder_prefix(*decoder, head), model);
  } else {
    HubConfig config(std::move(map), head);
    family->read(config, model);
  }
  // Of state-space layers, which have no positions, a sequence may be as long as it will.
  if (model.max_positions == 0) model.max_positions = hub::kMaxPositions;
  if (const Node* stored = root.find("quantization_config");
      stored != nullptr && stored->is_map()) {
    model.quantization = MapReader(*stored, "quantization_config").string_or("quant_method", "");
    if (model.quantization.empty()) model.quantization = "bitsandbytes";  // before it was named
  }
  check_model_size(model, root);
  return model;
}

ModelSpec load_model(const std::filesystem::path& path) {
  return read_model_files(load_model_files(path));
}

std::string model_name(const std::filesystem::path& path) {
  const std::string stem = path.stem().string();
  const std::string folder = path.parent_path().filename().string();
  const bool named_by_folder =
      stem == "config" && !folder.empty() && folder != "." && folder != "..";
  return named_by_folder ? folder : stem;
}

}  // namespace zenflow::sim
