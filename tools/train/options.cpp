#include "tools/train/options.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <type_traits>
#include <variant>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/machine/core_share.h"
#include "sim/base/error.h"
#include "sim/offload/knobs.h"
#include "tools/command_line.h"

namespace zenflow::tools {
namespace {

using runtime::TrainOptions;
using sim::SetupKnob;

CLI::Validator one_of(const std::vector<std::string>& choices) {
  const auto check = [choices](const std::string& value) { return check_choice(choices, value); };
  return CLI::Validator(check, fmt::format("{{{}}}", fmt::join(choices, ",")));
}

void add_choice(CLI::App& app, const std::string& flags, std::string& name,
                const std::vector<std::string>& choices, const std::string& what) {
  app.add_option(flags, name, what)->check(one_of(choices))->capture_default_str();
}

/// CLI11 wraps negative numbers into unsigned ones and takes the largest for larger ones.
CLI::Validator whole_number() {
  const auto check = [](const std::string& value) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool whole = error == std::errc() && end == value.data() + value.size();
    return whole ? "" : fmt::format("expected a whole number, found \"{}\"", value);
  };
  return CLI::Validator(check, "");
}

/// Of a number that is kept as fp32: what that does not hold is said as it was given.
CLI::Validator fp32_from(float low) {
  constexpr float kMost = std::numeric_limits<float>::max();
  CLI::Validator validator = number_between(low, kMost);
  const auto check = [=](std::string& text) -> std::string {
    if (validator(text).empty()) return "";
    return fmt::format("expected a number from {:.3g} to {:.3g}, found \"{}\"", low, kMost, text);
  };
  return {check, "", "fp32_from"};
}

/// true or false, to be written out: a default of true needs a way to say no.
void add_switch(CLI::App& app, const std::string& flag, bool& value, const std::string& what) {
  app.add_option(flag, value, what)
      ->check(one_of({"true", "false"}))
      ->default_str(value ? "true" : "false");
}

/// The flag of a knob that is one of some words.
CLI::Option* add_word_knob(CLI::App& app, const SetupKnob& knob, sim::TrainingSetup& setup) {
  std::vector<std::string> words(knob.words.begin(), knob.words.end());
  std::erase(words, "fp16");  // its gradients would need loss scaling
  const auto take = [&knob, &setup](const std::string& text) {
    set_knob(knob, setup, *word_value(knob, text));
  };
  return app.add_option_function<std::string>(std::string(knob.flag), take, std::string(knob.help))
      ->check(one_of(words));
}

/// The flag of a number. What ZenFlow's may be is checked with the other settings, which says why.
template <class Number>
CLI::Option* add_number_knob(CLI::App& app, const SetupKnob& knob, Number& value) {
  CLI::Option* option = app.add_option(std::string(knob.flag), value, std::string(knob.help));
  if (knob.path.find(".zenflow.") == std::string_view::npos) {
    option->check(
        CLI::Range(static_cast<Number>(knob.low), static_cast<Number>(knob.most_trained)));
  }
  return option->capture_default_str();
}

/// The flag of a row of the setup's table; the default is what `setup` has now.
void add_knob(CLI::App& app, TrainCommand& o, const SetupKnob& knob) {
  const auto add = [&](auto field) {
    auto& value = o.setup.*field;
    using Value = std::remove_reference_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, bool>) {
      if (value) {
        add_switch(app, std::string(knob.flag), value, std::string(knob.help));
      } else {
        app.add_flag(std::string(knob.flag), value, std::string(knob.help));
      }
    } else if constexpr (std::is_arithmetic_v<Value>) {
      add_number_knob(app, knob, value);
    }
  };
  if (knob.words.empty()) {
    std::visit(add, knob.field);
  } else {
    add_word_knob(app, knob, o.setup)->default_str(knob_text(knob, o.setup));
  }
}

void add_knobs(CLI::App& app, TrainCommand& o, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) add_knob(app, o, sim::setup_knob(name));
}

/// Those for which DeepSpeed's file has no key.
void add_zenflow_train_knobs(CLI::App& app, TrainCommand& o) {
  for (const SetupKnob& knob : sim::setup_knobs()) {
    if (!key_in("zenflow_train", knob).empty()) add_knob(app, o, knob);
  }
}

void add_model_options(CLI::App& app, TrainCommand& o) {
  TrainOptions& t = o.train;
  app.add_option("--model", t.model,
                 fmt::format("the model: a Hugging Face config.json ({})",
                             fmt::join(runtime::trained_families(), ", ")))
      ->required();
  app.add_option("--data", t.data,
                 "what to train on: a text (bytes are tokens), tokens (*.bin) or examples with "
                 "labels (*.safetensors) by script/tokenize, or the folder of a GLUE task")
      ->required();
  app.add_option(
      "--tokenizer", t.tokenizer,
      "the tokenizer that --data has its tokens from: files that --save-model takes along; "
      "default: those beside --model or --weights");
  app.add_flag("--byte-tokens", t.feed.byte_tokens,
               "take the bytes of a text for tokens, whatever the model's vocabulary");
  app.add_option("--task", t.task,
                 "train a classifier for this GLUE task, e.g. sst-2, on the TSV files in --data; "
                 "default: language modelling");
  app.add_flag("--skip-malformed-rows", t.feed.skip_malformed_rows,
               "leave out rows of GLUE files that do not have the task's columns or labels");
  app.add_option("--weights", t.weights,
                 "initial weights (safetensors); default: random, by --seed");
  app.add_option("--save-weights", t.save_weights,
                 "write the trained weights here (fp32 safetensors), also if the run is stopped");
  app.add_option("--save-model", t.save_model,
                 "write the trained model into this new folder, as transformers loads it: "
                 "config.json, fp32 safetensors, and the tokenizer files beside --model");
  app.add_option("--shard-size", o.shard_size,
                 "with --save-model: most bytes of a weight file, e.g. \"5 GB\", the default");
  add_knobs(app, o, {"dtype"});
  const CLI::Range positive(std::int64_t{1}, std::int64_t{1} << 40);
  const CLI::Range natural(std::int64_t{0}, std::int64_t{1} << 40);
  app.add_option("--steps", t.steps, "steps to train in all, those before a resume included")
      ->check(positive)
      ->capture_default_str();
  add_knobs(app, o,
            {"micro_batch_size", "gradient_accumulation_steps", "activation_checkpointing",
             "sequence_length"});
  add_choice(app, "--rank-binding", o.rank_binding, {"cores", "none"},
             "with several ranks: cores of its own for each, or none");
  app.add_option("--rank-timeout", o.rank_timeout,
                 "seconds after which a rank that does not answer ends the job of all; default 20")
      ->check(number_between(1, 1e6));
  app.add_option("--seed", t.seed, "seed of the initial weights and of the order of data")
      ->check(whole_number())
      ->capture_default_str();
  app.add_option("--validation-fraction", t.feed.validation_fraction,
                 "share of the text, at its end, that is kept for validation")
      ->check(number_between(0.0, 0.99))
      ->capture_default_str();
  app.add_option("--evaluate-interval", t.evaluate_interval,
                 "steps between validations; 0: at the end only")
      ->check(natural)
      ->capture_default_str();
}

void add_optimizer_options(CLI::App& app, TrainCommand& o) {
  runtime::OffloadSettings& s = o.train.offload;
  runtime::LearningRate& rate = o.train.learning_rate;
  const CLI::Range natural(std::int64_t{0}, std::int64_t{1} << 40);
  add_knobs(app, o, {"schedule", "topk_ratio"});
  const SetupKnob& interval = sim::setup_knob("update_interval");  // or auto
  app.add_option(std::string(interval.flag), o.update_interval, std::string(interval.help))
      ->capture_default_str();
  app.add_option("--auto-ratio", o.train.auto_ratio,
                 "with --update-interval auto: share of matrices in which deferred gradients have "
                 "to add up to selected ones before an update")
      ->check(number_between(0.0, 1.0))
      ->capture_default_str();
  add_choice(app, "--tune", o.tune, {"off", "live"},
             "live: choose the S of the shortest step, by a profile that is fitted while training; "
             "needs --update-interval auto");
  app.add_option("--tune-slack", o.train.tuner.slack,
                 "with --tune live: share of step time to give up for less staleness")
      ->check(number_between(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--topk-range", o.topk_range,
                 "with --tune live: choose k as well, between LOW and HIGH; memory is planned for "
                 "both ends, each buffer at its larger size. Default: k stays")
      ->type_name("LOW:HIGH");
  app.add_option("--max-deferred-share", o.train.tuner.max_deferred_share,
                 "with --topk-range: largest share of the squared gradient norm of matrices that "
                 "may be deferred; 1: any")
      ->check(number_between(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--start-interval", o.start_interval,
                 "with --update-interval auto: S of the first windows")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->capture_default_str();
  add_knobs(app, o, {"select_interval", "full_warm_up_rounds", "overlap_step"});
  app.add_option("--max-staleness", s.max_staleness,
                 "most steps from a gradient to the weights that it changes")
      ->check(natural)
      ->capture_default_str();
  add_choice(app, "--column-norm", o.column_norm, {"l1", "l2"}, "norm by which columns are ranked");
  add_zenflow_train_knobs(app, o);
  add_switch(app, "--whole-step-gradients", s.whole_step_gradients,
             "false: the device holds deferred gradients of two groups at a time, and backward "
             "waits for the link");
  add_choice(app, "--deferred-scaling", o.deferred_scaling, {"none", "sqrt", "0.75", "linear"},
             "learning rate of a CPU update, which takes the mean of S gradients: that of one step "
             "(as DeepSpeed), times sqrt(S), S^0.75 or S; with all but the first, weights and "
             "moments decay as in S steps");
  app.add_option("--lr", rate.peak, "learning rate at its highest")
      ->check(fp32_from(0))
      ->capture_default_str();
  add_choice(app, "--lr-decay", o.decay, {"constant", "linear", "cosine"},
             "learning rate after the warm-up; linear and cosine fall to zero at --steps");
  app.add_option("--lr-warmup-steps", rate.warmup_steps,
                 "steps in which the learning rate rises linearly to --lr")
      ->check(natural)
      ->capture_default_str();
  app.add_option("--beta1", s.adamw.beta1, "AdamW: decay of the mean of gradients")
      ->capture_default_str();
  app.add_option("--beta2", s.adamw.beta2, "AdamW: decay of the mean of their squares")
      ->capture_default_str();
  app.add_option("--epsilon", s.adamw.epsilon, "AdamW: added to the root of that mean")
      ->check(fp32_from(std::numeric_limits<float>::denorm_min()))
      ->capture_default_str();
  app.add_option("--weight-decay", s.adamw.weight_decay,
                 "AdamW: share of a weight that is taken off, times the learning rate; norms and "
                 "biases lose nothing, as under Hugging Face's Trainer")
      ->check(fp32_from(0))
      ->capture_default_str();
  app.add_flag("--decay-vectors", s.decays_vectors, "weight decay for norms and biases, too");
  app.add_option("--gradient-clipping", s.gradient_clipping,
                 "clip the gradient of a step to this norm; 0: do not clip")
      ->capture_default_str();
}

void add_machine_options(CLI::App& app, TrainCommand& o) {
  TrainOptions& t = o.train;
  add_choice(app, "--device", o.device, {"cpu", "cuda"}, "what trains: the CPU or a GPU");
  app.add_option("--gpu", o.gpu, "with --device cuda: number of the GPU among the visible ones")
      ->check(CLI::Range(0, 1023))
      ->capture_default_str();
  add_knobs(app, o, {"threads"});
  app.add_option("--optimizer-cores", t.offload.optimizer_cores,
                 "CPUs to bind the optimizer's threads to, e.g. 2,3")
      ->check(whole_number())
      ->delimiter(',');
  app.add_option("--link-bandwidth", o.link_bandwidth,
                 "with --device cpu: slow copies in each direction down to this, e.g. \"25 GB/s\"");
  app.add_option("--device-memory", o.device_memory,
                 "refuse to use more than this on the device, e.g. \"80 GiB\"");
}

void add_output_options(CLI::App& app, TrainCommand& o) {
  TrainOptions& t = o.train;
  const CLI::Range natural(std::int64_t{0}, std::int64_t{1} << 40);
  app.add_option("--checkpoint", t.checkpoint, "directory for checkpoints");
  app.add_option("--checkpoint-interval", t.checkpoint_interval,
                 "steps between checkpoints; 0: at the end only")
      ->check(natural)
      ->capture_default_str();
  app.add_option("--checkpoints-kept", t.checkpoints_kept,
                 "how many of the newest checkpoints to keep")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--resume", t.resume, "go on from the newest valid checkpoint in --checkpoint");
  app.add_option("--trace", o.trace,
                 "record the run as a Chrome trace; gzip if the name ends in .gz");
  app.add_option(
      "--importance", t.importance,
      "write how the gradient norm is spread over columns: a row for each matrix and step (CSV)");
  app.add_option(
      "--log-dir", o.log_dir,
      "write loss, learning rate, gradient norm and speed of every step, and validations, "
      "into this folder for TensorBoard");
  app.add_flag("--json", o.json, "print one result document on standard output");
  app.add_flag("-f,--force", t.overwrite, "overwrite existing files");
  app.add_flag("-q,--quiet", o.quiet, "no progress and no notes, warnings alone");
  app.add_flag("-v,--verbose", o.verbose, "print a line for every step");
}

}  // namespace

std::optional<int> omp_num_threads() {
  const char* const text = std::getenv("OMP_NUM_THREADS");
  if (text == nullptr || *text == '\0') return std::nullopt;
  const std::string_view first = std::string_view(text).substr(0, std::string_view(text).find(','));
  int threads = 0;
  const auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), threads);
  if (error != std::errc{} || end != first.data() + first.size() || threads < 1) {
    throw Error(ErrorKind::kInput,
                fmt::format("OMP_NUM_THREADS in the environment: expected a number of threads, "
                            "found \"{}\"",
                            first.substr(0, 40)));
  }
  return threads;
}

int default_threads() {
  const int cores = static_cast<int>(runtime::allowed_cpus().size());
  return std::min(cores, omp_num_threads().value_or(cores));
}

void add_train_options(CLI::App& app, TrainCommand& command) {
  const int threads = default_threads();
  sim::TrainingSetup& setup = command.setup;
  static_cast<sim::TrainingSettings&>(setup) = command.train.training;
  setup.threads = threads;
  setup.optimizer_threads = threads;
  add_model_options(app, command);
  add_optimizer_options(app, command);
  add_machine_options(app, command);
  add_output_options(app, command);
}

}  // namespace zenflow::tools
