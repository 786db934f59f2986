// Cards and models by the names that people use.
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/config/hub/hub_model.h"
#include "sim/job_files/job_inputs.h"
#include "tests/support/error_of.h"

namespace zenflow::sim {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using zenflow::testing::error_of;

std::filesystem::path source(const char* folder) {
  return std::filesystem::path(ZENFLOW_SOURCE_DIR) / folder;
}

std::string card(const std::string& text, std::vector<std::string>* others = nullptr) {
  const GpuCatalogue catalogue({source("profiles")});
  std::vector<std::string> more;
  const std::string key = find_gpu(catalogue, text, source_named("--gpu"), more);
  if (others != nullptr) *others = more;
  return key;
}

TEST(GpuNamesTest, UsualSpellings) {
  const std::map<std::string, std::string> expected = {{"RTX 4090", "rtx_4090"},
                                                       {"rtx4090", "rtx_4090"},
                                                       {"4090", "rtx_4090"},
                                                       {"NVIDIA GeForce RTX 4090", "rtx_4090"},
                                                       {"rtx_3090", "rtx_3090"},
                                                       {"3090 Ti", "rtx_3090_ti"},
                                                       {"NVIDIA A100-SXM4-80GB", "a100_sxm_80g"},
                                                       {"A100 PCIe 40GB", "a100_pcie_40g"},
                                                       {"A100 40GB SXM", "a100_sxm_40g"},
                                                       {"H100 PCIe", "h100_pcie"},
                                                       {"h100-nvl", "h100_nvl"},
                                                       {"NVIDIA H100 80GB HBM3", "h100_sxm"},
                                                       {"H200", "h200"},
                                                       {"L40S", "l40s"},
                                                       {"L4", "l4"},
                                                       {"A10", "a10"},
                                                       {"A10G", "a10g"},
                                                       {"Tesla T4", "t4"},
                                                       {"A6000", "rtx_a6000"},
                                                       {"RTX 6000 Ada", "rtx_6000_ada"},
                                                       {"B200", "b200"}};
  for (const auto& [text, key] : expected) EXPECT_EQ(card(text), key) << text;
  std::vector<std::string> others;
  card("RTX 4090", &others);
  EXPECT_THAT(others, IsEmpty());
}

// Every name that the catalogue itself has leads to its card.
TEST(GpuNamesTest, AllNamesOfTheCatalogue) {
  const GpuCatalogue catalogue({source("profiles")});
  for (const std::string& key : catalogue.keys()) {
    const CatalogueGpu gpu = read_catalogue_gpu(catalogue.load(key, {}, "gpu").second, key);
    EXPECT_EQ(card(key), key);
    EXPECT_EQ(card(gpu.gpu.name), key) << gpu.gpu.name;
    for (const std::string& name : gpu.also_known_as) EXPECT_EQ(card(name), key) << name;
  }
}

TEST(GpuNamesTest, OfSeveralTheLargestAndTheOthersAreSaid) {
  std::vector<std::string> others;
  EXPECT_EQ(card("A100", &others), "a100_sxm_80g");
  EXPECT_THAT(others, AllOf(Contains("a100_sxm_40g"), Contains("a100_pcie_80g")));
  EXPECT_EQ(card("A100-80GB", &others), "a100_sxm_80g");
  EXPECT_THAT(others, ::testing::ElementsAre("a100_pcie_80g"));
}

TEST(GpuNamesTest, UnknownCardsAreRefused) {
  const auto error = error_of([] { card("RTX 4091"); });
  EXPECT_EQ(error.first, ErrorKind::kInput);
  EXPECT_THAT(error.second, AllOf(HasSubstr("--gpu"),
                                  HasSubstr("no card \"RTX 4091\" (did you mean \"rtx_4090\"?)"),
                                  HasSubstr("rtx_4090")));
  EXPECT_EQ(error_of([] { card(""); }).first, ErrorKind::kInput);
  EXPECT_EQ(error_of([] { card("NVIDIA"); }).first, ErrorKind::kInput);
}

std::string described(const std::string& name) {
  return find_named_model(name, {source("scenarios/models")}, source_named("--model"))
      .stem()
      .string();
}

TEST(HubNamesTest, WithAndWithoutOwner) {
  EXPECT_EQ(described("Qwen/Qwen3-8B"), "qwen3_8b");
  EXPECT_EQ(described("qwen/qwen3-8b"), "qwen3_8b");
  EXPECT_EQ(described("Qwen3-8B"), "qwen3_8b");
  EXPECT_EQ(described("meta-llama/Llama-3.1-8B-Instruct"), "llama3_1_8b");
  EXPECT_EQ(described("llama2_7b"), "llama2_7b");
}

TEST(HubNamesTest, UnknownNamesSayWhatToFetch) {
  const auto error = error_of([] { described("Qwen/Qwen3-9B"); });
  EXPECT_EQ(error.first, ErrorKind::kInput);
  EXPECT_THAT(error.second, AllOf(HasSubstr("--model"), HasSubstr("did you mean \"Qwen/Qwen3-"),
                                  HasSubstr("fetch config.json"), HasSubstr("list hub-models")));
}

// Every name has a description that can be read, and no name stands twice.
TEST(HubNamesTest, AllAreDescribed) {
  const auto names = named_models({source("scenarios/models")});
  EXPECT_GE(names.size(), 120U);
  std::set<std::string> seen;
  for (const auto& [name, file] : names) {
    EXPECT_TRUE(seen.insert(name).second) << name << " stands twice";
    EXPECT_NE(name.find('/'), std::string::npos) << name;
    EXPECT_TRUE(std::filesystem::is_regular_file(file)) << file;
  }
}

// Parameters as model cards and headers of the weights on the Hub have them.
TEST(HubNamesTest, ParametersAreExact) {
  const std::map<std::string, std::int64_t> expected = {
      {"01-ai/Yi-1.5-9B", 8'829'407'232},
      {"01-ai/Yi-34B", 34'388'917'248},
      {"01-ai/Yi-6B", 6'061'035'520},
      {"CohereLabs/c4ai-command-r-v01", 34'980'831'232},
      {"CohereLabs/c4ai-command-r7b-12-2024", 8'028'033'024},
      {"EleutherAI/gpt-j-6b", 6'050'882'784},
      {"EleutherAI/gpt-neo-1.3B", 1'315'575'808},
      {"EleutherAI/gpt-neox-20b", 20'554'567'680},
      {"EleutherAI/pythia-1.4b", 1'414'647'808},
      {"EleutherAI/pythia-12b", 11'846'072'320},
      {"EleutherAI/pythia-2.8b", 2'775'208'960},
      {"EleutherAI/pythia-6.9b", 6'857'302'016},
      {"FacebookAI/roberta-large", 355'412'057},
      {"HuggingFaceTB/SmolLM2-1.7B", 1'711'376'384},
      {"HuggingFaceTB/SmolLM2-135M", 134'515'008},
      {"HuggingFaceTB/SmolLM2-360M", 361'821'120},
      {"HuggingFaceTB/SmolLM3-3B", 3'075'098'624},
      {"Qwen/Qwen1.5-MoE-A2.7B", 14'315'784'192},
      {"Qwen/Qwen2.5-0.5B", 494'032'768},
      {"Qwen/Qwen2.5-1.5B", 1'543'714'304},
      {"Qwen/Qwen2.5-14B", 14'770'033'664},
      {"Qwen/Qwen2.5-32B", 32'763'876'352},
      {"Qwen/Qwen2.5-3B", 3'085'938'688},
      {"Qwen/Qwen2.5-72B", 72'706'203'648},
      {"Qwen/Qwen2.5-7B", 7'615'616'512},
      {"Qwen/Qwen2.5-VL-7B-Instruct", 8'292'166'656},
      {"Qwen/Qwen3-0.6B", 596'049'920},
      {"Qwen/Qwen3-1.7B", 1'720'574'976},
      {"Qwen/Qwen3-14B", 14'768'307'200},
      {"Qwen/Qwen3-235B-A22B", 235'093'634'560},
      {"Qwen/Qwen3-30B-A3B", 30'532'122'624},
      {"Qwen/Qwen3-32B", 32'762'123'264},
      {"Qwen/Qwen3-4B", 4'022'468'096},
      {"Qwen/Qwen3-8B", 8'190'735'360},
      {"Qwen/Qwen3-Next-80B-A3B-Instruct", 79'674'391'296},
      {"Qwen/Qwen3-VL-30B-A3B-Instruct", 31'070'754'032},
      {"TinyLlama/TinyLlama-1.1B-Chat-v1.0", 1'100'048'384},
      {"allenai/OLMo-2-1124-13B", 13'716'198'400},
      {"allenai/OLMo-2-1124-7B", 7'298'617'344},
      {"answerdotai/ModernBERT-base", 149'655'232},
      {"bigcode/starcoder2-7b", 7'400'416'256},
      {"bigscience/bloom-7b1", 7'069'016'064},
      {"codellama/CodeLlama-7b-hf", 6'738'546'688},
      {"deepseek-ai/DeepSeek-R1", 671'026'404'352},
      {"deepseek-ai/DeepSeek-R1-Distill-Llama-8B", 8'030'261'248},
      {"deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", 1'777'088'000},
      {"deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", 7'615'616'512},
      {"deepseek-ai/DeepSeek-V2-Lite", 15'706'484'224},
      {"deepseek-ai/DeepSeek-V3.2", 671'877'929'216},
      {"distilbert/distilgpt2", 81'912'576},
      {"facebook/opt-1.3b", 1'315'758'080},
      {"facebook/opt-125m", 125'239'296},
      {"facebook/opt-13b", 12'853'473'280},
      {"facebook/opt-2.7b", 2'651'596'800},
      {"facebook/opt-30b", 29'974'540'288},
      {"facebook/opt-6.7b", 6'658'473'984},
      {"google-t5/t5-base", 222'903'552},
      {"google/flan-t5-xxl", 11'003'736'064},
      {"google/gemma-2-27b", 27'227'128'320},
      {"google/gemma-2-2b", 2'614'341'888},
      {"google/gemma-2-9b", 9'241'705'984},
      {"google/gemma-2b", 2'506'172'416},
      {"google/gemma-3-1b-pt", 999'885'952},
      {"google/gemma-7b", 8'537'680'896},
      {"llava-hf/llava-1.5-7b-hf", 7'062'902'784},
      {"meta-llama/Llama-2-13b-hf", 13'015'864'320},
      {"meta-llama/Llama-2-70b-hf", 68'976'648'192},
      {"meta-llama/Llama-2-7b-hf", 6'738'415'616},
      {"meta-llama/Llama-3.1-70B", 70'553'706'496},
      {"meta-llama/Llama-3.1-8B", 8'030'261'248},
      {"meta-llama/Llama-3.2-1B", 1'235'814'400},
      {"meta-llama/Llama-3.2-3B", 3'212'749'824},
      {"meta-llama/Llama-4-Scout-17B-16E", 108'225'039'360},
      {"meta-llama/Meta-Llama-3-70B", 70'553'706'496},
      {"meta-llama/Meta-Llama-3-8B", 8'030'261'248},
      {"microsoft/Phi-3-medium-4k-instruct", 13'960'238'080},
      {"microsoft/Phi-3-mini-4k-instruct", 3'821'079'552},
      {"microsoft/Phi-3.5-MoE-instruct", 41'872'793'600},
      {"microsoft/Phi-4-mini-instruct", 3'836'021'760},
      {"microsoft/deberta-v3-base", 184'423'682},
      {"microsoft/phi-2", 2'779'683'840},
      {"microsoft/phi-4", 14'659'507'200},
      {"mistralai/Ministral-8B-Instruct-2410", 8'019'808'256},
      {"mistralai/Mistral-7B-Instruct-v0.2", 7'241'732'096},
      {"mistralai/Mistral-7B-v0.1", 7'241'732'096},
      {"mistralai/Mistral-7B-v0.3", 7'248'023'552},
      {"mistralai/Mistral-Nemo-Base-2407", 12'247'782'400},
      {"mistralai/Mistral-Small-24B-Base-2501", 23'572'403'200},
      {"mistralai/Mixtral-8x7B-v0.1", 46'702'792'704},
      {"openai-community/gpt2", 124'439'808},
      {"openai-community/gpt2-large", 774'030'080},
      {"openai-community/gpt2-medium", 354'823'168},
      {"openai-community/gpt2-xl", 1'557'611'200},
      {"openai/gpt-oss-120b", 116'829'156'672},
      {"openai/gpt-oss-20b", 20'914'757'184},
      {"openai/whisper-large-v3", 1'543'490'560},
      {"zai-org/GLM-4.5-Air", 103'481'200'640}};
  for (const auto& [name, count] : expected) {
    const ModelSpec model =
        load_model(find_named_model(name, {source("scenarios/models")}, source_named("--model")));
    EXPECT_EQ(model.parameters(), count) << name;
  }
}

}  // namespace
}  // namespace zenflow::sim
