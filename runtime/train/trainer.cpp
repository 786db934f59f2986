#include "runtime/train/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/data/glue_task.h"
#include "runtime/machine/core_use.h"
#include "runtime/train/deferred_shares.h"
#include "runtime/train/initial_weights.h"
#include "runtime/train/limits.h"
#include "runtime/train/make_model.h"
#include "runtime/train/run.h"
#include "runtime/train/run_identity.h"
#include "runtime/train/simulated_run.h"
#include "runtime/tune/candidates.h"
#include "sim/base/crc32.h"
#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "sim/base/stop.h"
#include "sim/base/text.h"

namespace zenflow::runtime {

namespace {

Task task_of(const TrainOptions& options) {
  if (options.task.empty()) return Task::language_modelling();
  const GlueTaskInfo& task = find_glue_task(options.task);
  return Task::classification(
      task.is_regression() ? 1 : static_cast<std::int64_t>(task.classes.size()));
}

std::unique_ptr<DataFeed> open_feed(const TrainOptions& options, const TransformerConfig& config,
                                    const std::function<void(const std::string&)>& note) {
  const std::int64_t words = config.model.vocab;
  FeedOptions share = options.feed;
  share.note = note;
  share.rank = options.rank();
  share.ranks = options.ranks();
  if (options.task.empty()) return open_text(options.data, words, options.training, share);
  return open_glue(options.task, options.data, words, options.training, share);
}

/// Where --save-model goes, on rank 0. Bytes are no tokens of any tokenizer.
std::optional<ModelFolder> folder_of(const TrainOptions& options, const TransformerConfig& config) {
  if (!options.save_model || options.rank() > 0) return std::nullopt;
  check_model_folder(*options.save_model, options.overwrite);
  ModelFolder folder{.path = *options.save_model,
                     .config = saved_config(options.model, config),
                     .shard_bytes = options.shard_bytes};
  if (options.task.empty() && token_format(options.data) != TokenFormat::kBytes) {
    const auto folder_with = [](const std::filesystem::path& path) {
      return std::filesystem::is_directory(path) ? path : path.parent_path();
    };
    std::vector<std::filesystem::path> folders;
    if (options.tokenizer) {
      folders = {folder_with(*options.tokenizer)};
    } else {
      folders = {folder_with(options.model)};
      if (options.weights) folders.push_back(folder_with(*options.weights));
    }
    folder.copied = tokenizer_files(folders);
    if (options.tokenizer && folder.copied.empty()) {
      throw Error(ErrorKind::kInput,
                  fmt::format("--tokenizer: {}: expected tokenizer.json or another file of a "
                              "tokenizer by its usual name, which --save-model takes along",
                              options.tokenizer->generic_string()));
    }
    for (const auto& file : generation_files(folder_with(options.model))) {
      folder.copied.push_back(file);
    }
  }
  return folder;
}

const TrackRecorder& track(const Recorder& recorder, std::string_view name) {
  const TrackRecorder* found = recorder.find(name);
  if (found == nullptr) throw Error(ErrorKind::kRuntime, fmt::format("no track {}", name));
  return *found;
}

}  // namespace

Run::Run(const TrainOptions& options, const TrainEvents& events)
    : options_(options),
      events_(events),
      config_(load_transformer_config(options.model, task_of(options))),
      model_folder_(folder_of(options, config_)),
      feed_(open_feed(options, config_, events.note)),
      recorder_(options.record_trace),
      gpu_recording_(options.cuda && options.record_trace
                         ? start_gpu_recording(options.cuda->libraries)
                         : nullptr),
      device_(make_training_device(options, recorder_, gpu_recording_ ? &launches_ : nullptr,
                                   events.stop)),
      plan_(plan_memory(config_, options)),
      model_(make_training_model(config_, options, plan_, *device_)),
      engine_(*model_, element_type(options.training.dtype), options.offload, *device_,
              communicator(), recorder_),
      identity_(run_identity(options, config_, model_->parameters(), feed_->fingerprint())),
      statistics_(track(recorder_, "compute"), track(recorder_, "training thread")) {
  report_.model_name = config_.model.name;
  report_.parameters = model_->parameters().elements();
  for (const std::string& dropout : config_.unapplied_dropouts) note(dropout);
  if (options.importance && options.rank() == 0) {
    importance_.emplace(*options.importance, options.offload.topk_ratio, options.overwrite);
  }
  if (options.save_weights) check_output(*options.save_weights, options.overwrite);
}

namespace {

/// CPUs that any of the ranks may run on; those that may not be known count as the machine's.
std::int64_t cores_of_all(const std::vector<int>& cpus, Communicator& ranks) {
  constexpr std::size_t kMost = 4096;
  std::vector<double> used(kMost, 0.0);
  const std::size_t all = cpus.empty() ? std::thread::hardware_concurrency() : 0;
  for (std::size_t cpu = 0; cpu < all; ++cpu) used[std::min(cpu, kMost - 1)] = 1;
  for (const int cpu : cpus) used[std::min(static_cast<std::size_t>(cpu), kMost - 1)] = 1;
  ranks.sum(used);
  const auto count = std::count_if(used.begin(), used.end(), [](double one) { return one > 0; });
  return std::max<std::int64_t>(1, count);
}

}  // namespace

RankTuningSettings Run::tuning_settings(const IntervalLimits& limits) {
  const std::vector<int> cpus = allowed_cpus("/", options_.offload.optimizer_cores);
  RankTuningSettings all{.tuning = {.model = {.model = simulated_model(config_),
                                              .training = options_.training,
                                              .cores = cores_of_all(cpus, communicator()),
                                              .device_cores = options_.cuda ? 0 : options_.threads,
                                              .offload = options_.offload},
                                    .tuner = options_.tuner,
                                    .importance = limits,
                                    .topk_ratios = {options_.offload.topk_ratio},
                                    .steps = options_.steps,
                                    .finish_recording = [this] { device_->collect_all_times(); },
                                    .wait_for_fits = options_.wait_for_fits},
                         .deferred_squares = [this](const std::vector<double>& ratios) {
                           return deferred_squares(engine_, ratios);
                         }};
  all.groups = group_sizes(model_->parameters(), element_type(options_.training.dtype));
  all.clock = communicator().clock_offset();
  LiveTuningSettings& settings = all.tuning;
  if (!options_.cuda) {
    settings.read_cores = [] { return read_cores("/"); };
    settings.cpus = cpus;
  }
  if (const auto& range = options_.offload.topk_range) {
    settings.topk_ratios = topk_ratios(range->low, range->high, options_.offload.topk_ratio);
  }
  settings.tuner.first = {options_.offload.update_interval, options_.offload.topk_ratio};
  settings.tuner.max_staleness = limits.max_staleness;
  settings.tuner.overlap_step = limits.overlap_step;
  // The first regular window after a warm-up begins with another layout, and selects.
  settings.tuner.begins_cold = options_.resume || options_.offload.full_warm_up_rounds > 0;
  return all;
}

void Run::set_policy() {
  const IntervalLimits limits{.auto_ratio = options_.auto_ratio,
                              .max_staleness = options_.offload.max_staleness,
                              .overlap_step = options_.offload.overlap_step};
  if (!options_.tune_live) {
    engine_.set_interval_policy(
        [this, zen_auto = IntervalController(limits)](const WindowObservation& seen) mutable {
          report_.decisions.push_back(zen_auto.decide(seen));
          if (events_.decision) events_.decision(report_.decisions.back());
          return report_.decisions.back().next;
        });
    return;
  }
  tuning_.emplace(tuning_settings(limits), communicator(), recorder_, events_.tuning);
  engine_.set_interval_policy([this](const WindowObservation& seen) {
    device_->collect_times();
    const TunePoint next = tuning_->window_ended(seen, statistics_.last_start());
    engine_.change_topk_ratio(next.topk_ratio);
    return next.update_interval;
  });
}

std::string Run::text_of_first(const std::string& text) {
  Communicator& ranks = communicator();
  double length = ranks.rank() == 0 ? static_cast<double>(text.size()) : 0;
  ranks.sum({&length, 1});
  std::vector<float> letters(static_cast<std::size_t>(length), 0.0F);  // exact
  if (ranks.rank() == 0) std::copy(text.begin(), text.end(), letters.begin());
  ranks.share(0, letters);
  return {letters.begin(), letters.end()};
}

/// Ranks that do something else would wait for each other for ever, or mix two trainings.
void Run::check_ranks() {
  Communicator& ranks = communicator();
  if (ranks.size() == 1) return;
  // What decides which numbers are exchanged when, besides what decides the numbers.
  const std::string here = fmt::format(
      "{}--steps: {}\n--evaluate-interval: {}\n--checkpoint: {}\n--checkpoint-interval: {}\n"
      "--resume: {}\n--weights: {}\n--save-weights: {}\n--save-model: {}\n--trace: "
      "{}\n--importance: {}\n"
      "--zero-stage: {}\n",
      identity_, options_.steps, options_.evaluate_interval, options_.checkpoint.has_value(),
      options_.checkpoint_interval, options_.resume,
      options_.weights.has_value() && !options_.resume, options_.save_weights.has_value(),
      options_.save_model.has_value(), options_.record_trace, options_.importance.has_value(),
      options_.offload.zero_stage);
  check_same_training(text_of_first(here), here);
  meet_ranks();  // one that differs ends the job, and says why
  const auto owned = static_cast<double>(engine_.layout().elements);
  note(fmt::format("{} ranks; this one updates {:.0f} % of the parameters", ranks.size(),
                   100 * owned / static_cast<double>(report_.parameters)));
}

void Run::check_initial_weights(const std::vector<std::vector<float>>& weights, ThreadPool& pool) {
  constexpr std::size_t kDigits = 8;
  if (communicator().size() == 1) return;
  std::vector<std::string> sums(weights.size());
  pool.run(weights.size(), [&](std::size_t i) {
    sums[i] = fmt::format("{:08x}", crc32(0, std::as_bytes(std::span(weights[i]))));
  });
  const std::string first = text_of_first(fmt::format("{}", fmt::join(sums, "")));
  std::vector<std::size_t> other;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (first.compare(i * kDigits, kDigits, sums[i]) != 0) other.push_back(i);
  }
  if (!other.empty()) {
    throw Error(
        ErrorKind::kInput,
        fmt::format("trains something else than rank 0: --weights {} differs from what it has "
                    "there in {} of {} tensors, the first is {}",
                    options_.weights->generic_string(), other.size(), sums.size(),
                    model_->parameters().parameters[other.front()].name));
  }
  meet_ranks();  // before anyone has begun
}

/// When rank 0 reads it is what the recordings of all ranks have in common.
void Run::read_clock() {
  clock_at_start_ = communicator().clock_offset();
  const double now = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  std::array<double, 1> of_first = {options_.rank() == 0 ? std::floor(1e6 * now) : 0};  // exact
  communicator().sum(of_first);
  run_begin_ = static_cast<std::int64_t>(of_first[0]);
}

Run::Asked Run::what_is_asked() {
  const bool suspend = !options_.cuda && events_.suspension_asked && events_.suspension_asked();
  std::array<double, 2> asked = {events_.stop && events_.stop() ? 1.0 : 0.0, suspend ? 1.0 : 0.0};
  communicator().sum(asked);
  return {asked[0] > 0, asked[1] > 0};
}

TrainReport Run::go() {
  check_ranks();
  if (options_.offload.interval_is_auto) set_policy();  // which ranks do together
  traffic_before_ = device_->traffic();
  if (options_.resume) {
    resume();
  } else {
    ThreadPool pool(
        {"optimizer", options_.offload.optimizer_threads, options_.offload.optimizer_cores});
    const auto weights =
        initial_weights(config_, model_->parameters(), options_.weights, options_.seed, pool,
                        [this](const auto& text) { note(text); });
    if (options_.weights) check_initial_weights(weights, pool);
    engine_.load_weights(weights);
  }
  open_checkpoints();
  report_.first_step = engine_.steps_done();
  if (report_.first_step > options_.steps) {
    throw Error(ErrorKind::kInput, fmt::format("--steps: {} are asked for, the checkpoint has {}",
                                               options_.steps, report_.first_step));
  }
  note_unreached();
  if (options_.record_trace) read_clock();
  if (events_.begins) {
    events_.begins({.model_name = report_.model_name,
                    .parameters = report_.parameters,
                    .device_name = std::string(device_->name()),
                    .training_samples = feed_->training_samples(),
                    .first_step = report_.first_step,
                    .topk_ratio = engine_.settings().topk_ratio,
                    .update_interval = engine_.settings().update_interval,
                    .device_bytes = total(plan_.device),
                    .host_bytes = total(plan_.host)});
  }
  throw_if_stopped();
  if (events_.steps_begin) events_.steps_begin();
  train_steps();
  finish();
  return std::move(report_);
}

void Run::note_unreached() const {
  const OffloadSettings& s = options_.offload;
  const std::int64_t regular = options_.steps - s.full_warm_up_rounds;
  const bool deferred = engine_.layout().deferred_elements() > 0;
  // Overlapped updates take effect a window after their own.
  const std::int64_t windows = s.overlap_step ? 2 : 1;
  if (deferred && regular > 0 && regular < windows * s.update_interval) {
    note(fmt::format(
        "--steps {}: no update of deferred columns takes effect before the end: with "
        "an update_interval of {} the first one does after {} steps",
        options_.steps, s.update_interval, s.full_warm_up_rounds + windows * s.update_interval));
  }
  const LearningRate& rate = options_.learning_rate;
  if (rate.decay != Decay::kConstant && rate.warmup_steps >= options_.steps) {
    note(
        fmt::format("--lr-warmup-steps {}: the learning rate still rises at the end, after {} "
                    "steps, and does not fall",
                    rate.warmup_steps, options_.steps));
  }
  if (options_.evaluate_interval > 0 && feed_->validation_batches() == 0) {
    note("--evaluate-interval has no effect: there is nothing to validate with");
  }
}

bool Run::validate_if_due() {
  const bool is_due =
      options_.evaluate_interval > 0 && engine_.steps_done() % options_.evaluate_interval == 0;
  return !is_due || validate();
}

void Run::train_steps() {
  const bool goes_on = report_.first_step > 0 && report_.first_step < options_.steps;
  if (goes_on) report_.stopped = !validate_if_due();  // unless it has been done
  const Clock::time_point start = Clock::now();
  double paused = 0;  // evaluations and checkpoints are not training
  while (engine_.steps_done() < options_.steps && !report_.stopped) {
    one_step();
    const Clock::time_point pause = Clock::now();
    const std::int64_t done = engine_.steps_done();
    const bool validated = validate_if_due();
    if (options_.checkpoint_interval > 0 && done % options_.checkpoint_interval == 0) {
      save_checkpoint();
    }
    const Asked asked = what_is_asked();
    report_.stopped = (asked.stop || !validated) && done < options_.steps;
    paused += std::chrono::duration<double>(Clock::now() - pause).count();
    if (asked.suspend) suspend();
  }
  report_.seconds = std::chrono::duration<double>(Clock::now() - start).count() - paused;
}

void Run::suspend() {
  LiveTuning* const leader = tuning_ ? tuning_->leader() : nullptr;
  if (leader == nullptr) {
    suspend_process();
    return;
  }
  const CoreReading then = read_cores("/");
  suspend_process();
  leader->suspended(then, read_cores("/"));
}

/// As Hugging Face's Trainer has it: every target that counts weighs the same, wherever it is.
std::optional<double> Run::targets_of_all(const std::vector<Batch>& micro_batches) {
  if (!feed_->has_labels()) return std::nullopt;  // all batches have as many
  double targets = 0;                             // exact
  for (const Batch& batch : micro_batches) {
    targets += static_cast<double>(batch.counted_targets());
  }
  communicator().sum({&targets, 1});
  return targets;
}

void Run::one_step() {
  std::vector<Batch> micro_batches;
  for (std::int64_t i = 0; i < options_.offload.gradient_accumulation_steps; ++i) {
    micro_batches.push_back(feed_->next());
  }
  statistics_.begin();
  const RankTraffic before = communicator().traffic();
  const std::optional<double> targets = targets_of_all(micro_batches);
  model_->begin_step(std::move(micro_batches), options_.ranks(), targets);
  engine_.set_learning_rate(options_.learning_rate.at(engine_.steps_done()));
  const StepResult result = engine_.step();
  rank_traffic_ += communicator().traffic() - before;
  std::optional<WindowEnd> window;
  if (result.window_ended && result.step >= options_.offload.full_warm_up_rounds) {
    window = {.steps = result.window_steps, .traffic = *result.window_traffic};
  }
  if (device_->has_released_link()) {
    statistics_.end_uncounted();
    note(fmt::format("step {} did not wait for the link any longer; it counts in no mean",
                     result.step + 1));
  } else {
    statistics_.end(window);
    recorder_.step(result.step, statistics_.last_start(), statistics_.last_end());
  }
  if (!std::isfinite(result.loss)) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("step {}: the loss is {}", result.step + 1, number_text(result.loss)));
  }
  report_.losses.push_back(result.loss);
  if (result.staleness) {
    report_.staleness_max = std::max(report_.staleness_max.value_or(0), *result.staleness);
    const std::int64_t newest = *result.newest_staleness;
    report_.staleness_min = std::min(report_.staleness_min.value_or(newest), newest);
  }
  if (options_.importance) record_importance();
  if (events_.step) {
    events_.step(result, statistics_.last(),
                 static_cast<double>(tokens_per_step(options_)) / statistics_.last().total);
  }
}

/// Of all ranks: each matrix's norms are its owner's.
void Run::record_importance() {
  const Layout& layout = engine_.layout();
  const ParameterTable& table = model_->parameters();
  const std::vector<RankedMatrix> matrices = matrices_of(table);
  std::vector<float> norms(columns_of(matrices), 0.0F);
  std::vector<double> shares(matrices.size(), 0.0);
  std::size_t m = 0;
  for (std::size_t s = 0; s < layout.slices.size(); ++s) {
    if (layout.slices[s].columns == 1) continue;
    const SliceImportance& seen = engine_.last_importance()[s];
    while (matrices[m].parameter != seen.parameter) ++m;
    std::ranges::copy(engine_.column_norms(s),
                      norms.begin() + static_cast<std::ptrdiff_t>(matrices[m].first));
    shares[m] = seen.square_sum > 0 ? seen.selected_square_sum / seen.square_sum : 0;
  }
  exchange_norms(communicator(), matrices, engine_.owners(), ElementType::kFloat32, norms);
  communicator().sum(shares);
  if (!importance_) return;
  for (m = 0; m < matrices.size(); ++m) {
    const RankedMatrix& one = matrices[m];
    importance_->add(engine_.steps_done() - 1, m, table.parameters[one.parameter].name,
                     std::span(norms).subspan(one.first, one.columns), shares[m]);
  }
}

bool Run::validate() {
  if (feed_->validation_batches() == 0 || last_validation_ == engine_.steps_done()) return true;
  const auto weights = engine_.device_weights();
  engine_.compute().record().wait();
  Validation result{.step = engine_.steps_done()};
  std::vector<std::vector<float>> logits;
  double sum = 0;
  std::int64_t targets = 0;
  for (std::size_t i = 0; i < feed_->validation_batches(); ++i) {
    const Asked asked = what_is_asked();
    if (asked.suspend && options_.ranks() == 1) suspend();  // others would wait
    if (asked.stop) return false;
    Evaluation batch = model_->evaluate(feed_->validation(i), weights, engine_.compute());
    sum += batch.loss * static_cast<double>(batch.targets);
    targets += batch.targets;
    if (!options_.task.empty()) logits.push_back(std::move(batch.logits));
    if (events_.validating) events_.validating(i + 1, feed_->validation_batches());
  }
  result.loss = sum / static_cast<double>(std::max<std::int64_t>(1, targets));
  if (!options_.task.empty()) result.metrics = feed_->metrics(logits);
  if (!std::isfinite(result.loss)) {
    throw Error(ErrorKind::kRuntime, fmt::format("after step {}: the validation loss is {}",
                                                 result.step, number_text(result.loss)));
  }
  last_validation_ = result.step;
  report_.validations.push_back(result);
  if (events_.validation) events_.validation(result);
  return true;
}

namespace {

/// Memory is allocated here: what the machine does not have shows before training.
std::unique_ptr<Run> prepared(const TrainOptions& options, const TrainEvents& events) {
  try {
    return std::make_unique<Run>(options, events);
  } catch (const std::bad_alloc&) {
    throw Error(
        ErrorKind::kInfeasible,
        fmt::format("{}: the model and a micro-batch of {} sequences of {} tokens do not fit "
                    "this machine's memory",
                    options.model.generic_string(), options.training.micro_batch_size_per_gpu,
                    options.training.sequence_length));
  }
}

void check_micro_batches(const TrainOptions& options) {
  const std::int64_t count = options.offload.gradient_accumulation_steps;
  if (options.training.dtype != sim::DType::kBf16 || count <= kMostBf16MicroBatches) return;
  throw Error(
      ErrorKind::kInput,
      fmt::format("--gradient-accumulation-steps: {} gradients added in bf16 would lose the "
                  "last ones to rounding; at most {} with --dtype bf16: make micro-batches "
                  "larger (--micro-batch-size), or use --dtype fp32",
                  count, kMostBf16MicroBatches));
}

/// What has no meaning for several ranks, or is not there yet.
void refuse_for_ranks(const TrainOptions& options) {
  const auto refuse = [&options](bool asked, const char* flag) {
    if (!asked) return;
    throw Error(ErrorKind::kInput, fmt::format("{}: not with {} ranks yet", flag, options.ranks()));
  };
  refuse(options.cuda.has_value() && options.tune_live, "--tune live with --device cuda");
}

}  // namespace

std::int64_t tokens_per_step(const TrainOptions& options) {
  return options.training.tokens() * options.offload.gradient_accumulation_steps * options.ranks();
}

TrainReport train(const TrainOptions& options, const TrainEvents& events) {
  if (options.resume && !options.checkpoint) {
    throw Error(ErrorKind::kInput, "--resume: --checkpoint says where from");
  }
  if (options.importance && options.offload.norm != NormKind::kL2) {
    throw Error(ErrorKind::kInput, "--importance: it needs --column-norm l2");
  }
  if (options.checkpoint_interval > 0 && !options.checkpoint) {
    throw Error(ErrorKind::kInput, "--checkpoint-interval: --checkpoint says where to");
  }
  check_micro_batches(options);
  if (options.ranks() > 1) refuse_for_ranks(options);
  const std::unique_ptr<Run> run = prepared(options, events);
  if (options.ranks() == 1) return run->go();
  try {
    return run->go();
  } catch (const std::exception& error) {
    // The others wait for this rank, and its own streams for them: no waiting for either.
    if (events.rank_failed) events.rank_failed(error);
    throw;
  }
}

}  // namespace zenflow::runtime
