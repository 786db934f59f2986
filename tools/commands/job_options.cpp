#include "tools/commands/job_options.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tools/command_line.h"
#include "tools/environment.h"
#include "tools/this_machine.h"

namespace zenflow::tools {

void add_job_options(CLI::App& command, sim::JobInputs& job) {
  const std::string group = kJobGroup;
  const auto add = [&](const char* name, auto& value, const char* what) {
    return command.add_option(name, value, what)->group(group);
  };
  const auto add_count = [&](const char* name, auto& value, const char* what) {
    add(name, value, what)->check(a_count());
  };
  add("--ds", job.file,
      "the job's own file: a DeepSpeed configuration, an accelerate configuration, "
      "TrainingArguments (JSON, YAML), or a training file of LLaMA-Factory, axolotl or ms-swift");
  add("--model", job.model, "config.json, its folder, weights, or a Hub name: Qwen/Qwen3-8B");
  add("--adapter", job.adapter, "PEFT's adapter_config.json, or its folder");
  add("--gpu", job.gpu, "the card, in any usual spelling: \"RTX 4090\", A100-80GB");
  add_count("--gpus", job.gpus, "GPUs of a node; default: what the file says, or one");
  add_count("--nodes", job.nodes, "nodes; default: one");
  add("--ram", job.ram, "memory of a node, e.g. 256GB; default: a typical host of such a card");
  add_count("--cores", job.cores, "physical cores of a node");
  add_count("--sockets", job.sockets, "sockets of a node");
  add("--gpu-link", job.link, "between GPUs: pcie, nvlink3, ...");
  add("--network", job.network, "line rate of a node, e.g. \"400 Gb/s\"");
  add("--host", job.host,
      "\"this\": card, memory and cores of the machine that this runs on, unless flags say them; "
      "or a profile (zenflow-calibrate probe)");
  add_count("--sequence-length", job.sequence_length, "tokens of a sequence");
  add_count("--micro-batch-size", job.micro_batch_size, "sequences of a GPU and micro step");
  add_count("--gradient-accumulation-steps", job.gradient_accumulation_steps,
            "micro steps of an optimizer step");
  add("--dtype", job.dtype, "bf16, fp16 or fp32")->check(CLI::IsMember({"bf16", "fp16", "fp32"}));
  CLI::Option* const with = command.add_flag_callback(
      "--activation-checkpointing", [&job] { job.activation_checkpointing = true; },
      "forward keeps a layer's input alone");
  CLI::Option* const without = command.add_flag_callback(
      "--no-activation-checkpointing", [&job] { job.activation_checkpointing = false; },
      "forward keeps all that backward needs");
  with->group(group)->excludes(without);
  without->group(group);
}

sim::JobScenario assemble_job(const sim::JobInputs& job,
                              const std::vector<sim::Override>& overrides) {
  sim::JobInputs inputs = job;
  if (inputs.host == "this") {
    inputs.host.reset();
    look_at_this_machine("/", inputs);
  }
  return sim::job_scenario(
      inputs,
      {.profile_directories = profile_directories({}), .model_directories = model_directories()},
      overrides);
}

std::vector<std::string> assembly_notes(const sim::JobScenario& scenario) {
  std::vector<std::string> notes = scenario.notes;
  std::string assumed;
  for (const sim::JobFact& fact : scenario.facts.all()) {
    if (!fact.is_estimate) continue;
    assumed += fmt::format("{}{}={}", assumed.empty() ? "" : ", ", fact.path, fact.value);
  }
  if (!assumed.empty()) notes.push_back("estimated: " + assumed);
  return notes;
}

}  // namespace zenflow::tools
