#include "runtime/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/data/glue_task.h"
#include "runtime/model/weight_file.h"
#include "runtime/offload/engine.h"
#include "runtime/train/initial_weights.h"
#include "runtime/train/run_identity.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

Task task_of(const TrainOptions& options) {
  if (options.task.empty()) return Task::language_modelling();
  const GlueTaskInfo& task = find_glue_task(options.task);
  return Task::classification(
      task.is_regression() ? 1 : static_cast<std::int64_t>(task.classes.size()));
}

/// Everything of a run that lives as long as it. Members are destroyed from the last to the first.
class Run {
 public:
  Run(const TrainOptions& options, const TrainEvents& events);
  TrainReport go();

 private:
  void resume();
  void open_checkpoints();
  void train_steps();
  void one_step();
  void validate();
  void save_checkpoint();
  void save_weights();
  void record_importance();
  void finish();
  void fill_report();
  void note(const std::string& text) const {
    if (events_.note) events_.note(text);
  }

  const TrainOptions& options_;
  const TrainEvents& events_;
  TransformerConfig config_;
  std::unique_ptr<DataFeed> feed_;
  Recorder recorder_;
  SelfCommunicator self_;
  HostDevice device_;
  HostModel model_;
  OffloadEngine engine_;
  std::string identity_;
  std::optional<CheckpointDirectory> checkpoints_;
  std::optional<ImportanceLog> importance_;
  StepStatistics statistics_;
  TrainReport report_;
  TrafficCount traffic_before_;
  std::int64_t last_checkpoint_ = -1;
  std::int64_t last_validation_ = -1;
};

std::unique_ptr<DataFeed> open_feed(const TrainOptions& options, const TransformerConfig& config) {
  if (options.task.empty()) return open_text(options.data, config.model.vocab, options.feed);
  return open_glue(options.task, options.data, config.model.vocab, options.feed);
}

const TrackRecorder& track(const Recorder& recorder, std::string_view name) {
  const TrackRecorder* found = recorder.find(name);
  if (found == nullptr) throw Error(ErrorKind::kRuntime, fmt::format("no track {}", name));
  return *found;
}

/// Where memory is promised beyond what there is, allocating succeeds and using it ends the
/// process: what cannot fit in any case is refused before.
void check_host_memory(const TransformerConfig& config, ElementType dtype) {
  constexpr std::uint64_t kStateBytes = 12;  // fp32 weight and two moments
  const std::uint64_t needed = static_cast<std::uint64_t>(config.model.parameters()) *
                               (bytes_per_element(dtype) + kStateBytes);
  const auto there = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                     static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (needed <= there) return;
  throw Error(
      ErrorKind::kInfeasible,
      fmt::format("{}: weights and optimizer state of {} parameters need {} bytes at least, "
                  "this machine has {}",
                  config.model.name, config.model.parameters(), needed, there));
}

HostTransformer make_transformer(const TransformerConfig& config, const TrainOptions& options) {
  check_host_memory(config, options.dtype);
  return {config, options.feed.sequences, options.feed.length, options.dtype, options.threads};
}

Run::Run(const TrainOptions& options, const TrainEvents& events)
    : options_(options),
      events_(events),
      config_(load_transformer_config(options.model, task_of(options))),
      feed_(open_feed(options, config_)),
      recorder_(options.record_trace),
      device_(options.device, recorder_),
      model_(make_transformer(config_, options)),
      engine_(model_, options.dtype, options.offload, device_, self_, recorder_),
      identity_(run_identity(options, config_, model_.parameters(), feed_->fingerprint())),
      statistics_(track(recorder_, "compute"), track(recorder_, "training thread")) {
  report_.model_name = config_.model.name;
  report_.parameters = model_.parameters().elements();
  for (const std::string& dropout : config_.unapplied_dropouts) note(dropout);
  if (options.importance) {
    importance_.emplace(*options.importance, options.offload.topk_ratio, options.overwrite);
  }
  if (options.save_weights) check_output(*options.save_weights, options.overwrite);
  if (options.offload.adaptive_interval) {
    const IntervalLimits limits{.auto_ratio = options.auto_ratio,
                                .max_staleness = options.offload.max_staleness,
                                .overlap_step = options.offload.overlap_step};
    engine_.set_interval_policy([this, limits](const WindowObservation& seen) {
      report_.decisions.push_back(choose_interval(seen, limits));
      if (events_.decision) events_.decision(report_.decisions.back());
      return report_.decisions.back().next;
    });
  }
}

void Run::resume() {
  const LatestCheckpoint latest = latest_valid(*options_.checkpoint);
  if (!latest.valid) {
    std::string reasons;
    for (const RejectedCheckpoint& rejected : latest.rejected) reasons += "\n  " + rejected.reason;
    throw Error(ErrorKind::kInput, fmt::format("{}: no valid checkpoint to resume from{}{}",
                                               options_.checkpoint->generic_string(),
                                               reasons.empty() ? "" : ":", reasons));
  }
  for (const RejectedCheckpoint& rejected : latest.rejected) {
    note("skipped a damaged checkpoint: " + rejected.reason);
  }
  CheckpointReader reader(latest.valid->path);
  check_identity(reader.read_text("identity"), identity_, latest.valid->path);
  std::vector<std::uint8_t> bytes;
  engine_.restore([&](std::string_view name) {
    bytes = reader.read<std::uint8_t>("engine/" + std::string(name));
    return std::as_bytes(std::span(bytes));
  });
  const auto position = reader.read<std::uint64_t>("data position");
  if (position.size() != 2) {
    throw Error(ErrorKind::kInput, fmt::format("{}: data position: expected two numbers",
                                               latest.valid->path.string()));
  }
  feed_->seek({position[0], position[1]});
  report_.losses = reader.read<double>("losses");
  report_.validations = restore_validations(reader);
  const auto total = reader.read_value<std::int64_t>("total steps");
  reader.reject_unread();
  const bool decays = options_.learning_rate.decay != Decay::kConstant;
  if (decays && total != options_.learning_rate.total_steps) {
    note(fmt::format("the learning rate now falls to zero at step {}, not {}",
                     options_.learning_rate.total_steps, total));
  }
  note(fmt::format("resumed from {} after step {}", latest.valid->path.string(),
                   engine_.steps_done()));
  last_checkpoint_ = engine_.steps_done();
  // An unfinished window is settled with the rate of its last step, even if no step follows.
  if (last_checkpoint_ > 0) {
    engine_.set_learning_rate(options_.learning_rate.at(last_checkpoint_ - 1));
  }
}

void Run::open_checkpoints() {
  if (!options_.checkpoint) return;
  std::optional<std::uint64_t> resumed;
  if (options_.resume) resumed = static_cast<std::uint64_t>(engine_.steps_done());
  checkpoints_.emplace(*options_.checkpoint, options_.checkpoints_kept, resumed);
  for (const auto& removed : checkpoints_->removed_temporaries()) {
    note(removed.generic_string() + ": removed what a killed run left");
  }
}

TrainReport Run::go() {
  traffic_before_ = device_.traffic();
  if (options_.resume) {
    resume();
  } else {
    engine_.load_weights(initial_weights(config_, model_.parameters(), options_.weights,
                                         options_.seed, [this](const auto& text) { note(text); }));
  }
  open_checkpoints();
  report_.first_step = engine_.steps_done();
  if (report_.first_step > options_.steps) {
    throw Error(ErrorKind::kInput, fmt::format("--steps: {} are asked for, the checkpoint has {}",
                                               options_.steps, report_.first_step));
  }
  train_steps();
  finish();
  return std::move(report_);
}

void Run::train_steps() {
  const Clock::time_point start = Clock::now();
  double paused = 0;  // evaluations and checkpoints are not training
  while (engine_.steps_done() < options_.steps && !report_.stopped) {
    one_step();
    const Clock::time_point pause = Clock::now();
    const std::int64_t done = engine_.steps_done();
    if (options_.evaluate_interval > 0 && done % options_.evaluate_interval == 0) validate();
    if (options_.checkpoint_interval > 0 && done % options_.checkpoint_interval == 0) {
      save_checkpoint();
    }
    report_.stopped = done < options_.steps && events_.stop && events_.stop();
    paused += std::chrono::duration<double>(Clock::now() - pause).count();
  }
  report_.seconds = std::chrono::duration<double>(Clock::now() - start).count() - paused;
  recorder_.begin_step(engine_.steps_done());
}

void Run::one_step() {
  const Batch batch = feed_->next();
  statistics_.begin();
  model_.begin(batch);
  engine_.set_learning_rate(options_.learning_rate.at(engine_.steps_done()));
  const StepResult result = engine_.step();
  statistics_.end(result.window_ended);
  const std::int64_t tokens = batch.sequences * batch.length;
  if (!std::isfinite(result.loss)) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("step {}: the loss is {}", result.step, result.loss));
  }
  report_.losses.push_back(result.loss);
  if (result.staleness) {
    report_.staleness_max = std::max(report_.staleness_max.value_or(0), *result.staleness);
    const std::int64_t newest = *result.newest_staleness;
    report_.staleness_min = std::min(report_.staleness_min.value_or(newest), newest);
  }
  if (importance_) record_importance();
  if (events_.step) {
    events_.step(result, statistics_.last(),
                 static_cast<double>(tokens) / statistics_.last().total);
  }
}

void Run::record_importance() {
  const Layout& layout = engine_.layout();
  const ParameterTable& table = model_.parameters();
  for (std::size_t s = 0; s < layout.slices.size(); ++s) {
    if (layout.slices[s].columns == 1) continue;
    const SliceImportance& seen = engine_.last_importance()[s];
    importance_->add(engine_.steps_done() - 1, s, table.parameters[seen.parameter].name,
                     engine_.column_norms(s),
                     seen.square_sum > 0 ? seen.selected_square_sum / seen.square_sum : 0);
  }
}

void Run::validate() {
  if (feed_->validation_batches() == 0 || last_validation_ == engine_.steps_done()) return;
  const auto weights = engine_.device_weights();
  engine_.compute().record().wait();
  Validation result{.step = engine_.steps_done()};
  std::vector<std::vector<float>> logits;
  double sum = 0;
  std::int64_t targets = 0;
  for (std::size_t i = 0; i < feed_->validation_batches(); ++i) {
    Evaluation batch = model_.evaluate(feed_->validation(i), weights);
    sum += batch.loss * static_cast<double>(batch.targets);
    targets += batch.targets;
    if (!options_.task.empty()) logits.push_back(std::move(batch.logits));
  }
  result.loss = sum / static_cast<double>(std::max<std::int64_t>(1, targets));
  if (!options_.task.empty()) result.metrics = feed_->metrics(logits);
  if (!std::isfinite(result.loss)) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("after step {}: the validation loss is {}", result.step, result.loss));
  }
  last_validation_ = result.step;
  report_.validations.push_back(result);
  if (events_.validation) events_.validation(result);
}

void Run::save_checkpoint() {
  const std::int64_t done = engine_.steps_done();
  if (!checkpoints_ || last_checkpoint_ == done) return;
  engine_.save([&](std::span<const OffloadEngine::NamedBytes> arrays) {
    checkpoints_->save(static_cast<std::uint64_t>(done), [&](CheckpointWriter& writer) {
      writer.add_text("identity", identity_);
      const DataPosition position = feed_->position();
      const std::vector<std::uint64_t> numbers = {position.epoch, position.index};
      writer.add("data position", std::span(numbers));
      writer.add("losses", std::span(report_.losses));
      save_validations(report_.validations, writer);
      const std::vector<std::int64_t> total = {options_.learning_rate.total_steps};
      writer.add("total steps", std::span(total));
      for (const OffloadEngine::NamedBytes& array : arrays) {
        writer.add("engine/" + array.name,
                   std::span(reinterpret_cast<const std::uint8_t*>(array.bytes.data()),
                             array.bytes.size()));
      }
    });
  });
  last_checkpoint_ = done;
}

void Run::save_weights() {
  if (!options_.save_weights) return;
  const auto weights = engine_.weights(true);
  write_weights(
      *options_.save_weights, model_.parameters(), ElementType::kFloat32,
      [&](std::size_t i) { return static_cast<const void*>(weights[i].data()); },
      options_.overwrite);
}

void Run::finish() {
  save_checkpoint();  // before what is under way is forced to an end: a resume goes on as if never
  if (report_.stopped) {
    note(fmt::format("stopped after step {}{}{}", engine_.steps_done(),
                     checkpoints_ ? "" : "; there is no --checkpoint to go on from",
                     options_.save_weights ? "; --save-weights is for the last step" : ""));
  }
  engine_.settle();
  if (!report_.stopped) save_weights();
  if (importance_) importance_->close();
  if (!report_.stopped) {
    // The settled weights are others than those of a validation after the last step.
    std::vector<Validation>& known = report_.validations;
    if (!known.empty() && known.back().step == engine_.steps_done()) known.pop_back();
    last_validation_ = -1;
    validate();
  }
  fill_report();
}

void Run::fill_report() {
  report_.steps = engine_.steps_done();
  report_.times = statistics_.means();
  if (report_.times.steps > 0) {
    report_.tokens_per_second =
        static_cast<double>(options_.feed.sequences * options_.feed.length) /
        report_.times.mean.total;
  }
  const TrafficCount after = device_.traffic();
  for (std::size_t kind = 0; kind < kTrafficKinds; ++kind) {
    report_.traffic.h2d[kind] = after.h2d[kind] - traffic_before_.h2d[kind];
    report_.traffic.d2h[kind] = after.d2h[kind] - traffic_before_.d2h[kind];
  }
  report_.update_interval = engine_.settings().update_interval;
  report_.device_memory = device_.memory_use(MemoryKind::kDevice);
  report_.pinned_memory = device_.memory_use(MemoryKind::kPinnedHost);
  constexpr std::uint64_t kStateBytes = 12;
  if (!options_.offload.everything_on_device) {
    report_.host_optimizer_bytes = kStateBytes * engine_.layout().elements;
  }
  if (options_.record_trace) {
    report_.trace_spans = recorder_.span_count();
    report_.trace_overhead_seconds =
        Recorder::cost_of_a_span().count() * static_cast<double>(report_.trace_spans);
    report_.timeline = recorder_.timeline(report_.model_name, std::string(device_.name()));
  }
}

/// Memory is allocated here: what the machine does not have shows before training.
std::unique_ptr<Run> prepared(const TrainOptions& options, const TrainEvents& events) {
  try {
    return std::make_unique<Run>(options, events);
  } catch (const std::bad_alloc&) {
    throw Error(
        ErrorKind::kInfeasible,
        fmt::format("{}: the model and a micro-batch of {} sequences of {} tokens do not fit "
                    "this machine's memory",
                    options.model.generic_string(), options.feed.sequences, options.feed.length));
  }
}

}  // namespace

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
  return prepared(options, events)->go();
}

}  // namespace zenflow::runtime
