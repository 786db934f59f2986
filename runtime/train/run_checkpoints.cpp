/// A run's way into a checkpoint and back.
#include <algorithm>
#include <deque>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/offload/saved_state.h"
#include "runtime/train/run.h"
#include "runtime/train/run_identity.h"
#include "sim/base/crc32.h"
#include "sim/base/error.h"
#include "sim/base/text.h"

namespace zenflow::runtime {
namespace {

/// The engine's arrays as sections of a checkpoint.
class EngineSections final : public OffloadEngine::StateSink {
 public:
  explicit EngineSections(CheckpointWriter& writer) : writer_(writer) {}

  void begin(const std::string& name, std::size_t bytes) override {
    writer_.begin("engine/" + name, SectionType::kU8, {bytes});
  }
  void append(std::span<const std::byte> piece) override { writer_.append(piece); }
  void end() override { writer_.end(); }

 private:
  CheckpointWriter& writer_;
};

/// What is wrong with a checkpoint's contents is said with its file.
void read_from(const std::filesystem::path& path, const std::function<void()>& body) {
  constexpr std::string_view kPlace = "checkpoint: ";
  try {
    body();
  } catch (const Error& error) {
    const std::string place = printable_name(path.generic_string()) + ": ";
    std::string_view what = error.what();
    if (error.kind() != ErrorKind::kInput || what.starts_with(place)) throw;
    if (what.starts_with(kPlace)) what.remove_prefix(kPlace.size());
    throw Error(ErrorKind::kInput, place + std::string(what));
  }
}

}  // namespace

CheckpointFile Run::newest_checkpoint() {
  const LatestCheckpoint latest = latest_valid(*options_.checkpoint);
  if (!latest.valid) {
    std::string reasons;
    for (const RejectedCheckpoint& rejected : latest.rejected) reasons += "\n  " + rejected.reason;
    throw Error(ErrorKind::kInput, fmt::format("{}: no valid checkpoint to resume from{}{}",
                                               options_.checkpoint->generic_string(),
                                               reasons.empty() ? "" : ":", reasons));
  }
  for (const RejectedCheckpoint& rejected : latest.rejected) {
    warn("skipped a damaged checkpoint: " + rejected.reason);
  }
  return *latest.valid;
}

/// By the tables of its files, which have the checksum of each section.
void Run::check_same_checkpoint(const CheckpointFile& file,
                                const std::deque<CheckpointReader>& shards) {
  if (communicator().size() == 1) return;
  std::uint32_t sum = 0;
  for (const CheckpointReader& shard : shards) {
    const std::string table = checkpoint_format::encode_table(shard.sections());
    sum = crc32(sum, std::as_bytes(std::span(table)));
  }
  const std::string here = fmt::format("{:08x}", sum);
  if (text_of_first(here) != here) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: is another one than rank 0's: --checkpoint has to be a folder "
                            "that all ranks see",
                            file.path.generic_string()));
  }
  meet_ranks();  // before anyone has begun
}

void Run::resume() {
  const bool leads = communicator().rank() == 0;
  // A process that goes on saving removes the checkpoints that are read here.
  std::optional<DirectoryLock> lock;
  if (leads && !list_checkpoints(*options_.checkpoint).empty()) lock.emplace(*options_.checkpoint);
  double chosen = 0;  // exact: a step is below 2^53
  if (leads) chosen = static_cast<double>(newest_checkpoint().step);
  communicator().sum({&chosen, 1});
  const auto step = static_cast<std::uint64_t>(chosen);
  const CheckpointFile file{shard_path(*options_.checkpoint, step, 0), step};
  std::deque<CheckpointReader> shards;
  for (const std::filesystem::path& path : shard_paths(file)) shards.emplace_back(path);
  check_same_checkpoint(file, shards);
  CheckpointReader& reader = shards.front();
  check_identity(reader.read_text("identity"), identity_, file.path);
  std::int64_t total = 0;
  read_from(file.path, [&] {
    std::vector<std::uint8_t> bytes;
    engine_.restore([&](std::string_view array) {
      const std::string name = "engine/" + std::string(array);
      const auto has = [&](const CheckpointReader& shard) { return shard.contains(name); };
      const auto found = std::ranges::find_if(shards, has);
      bytes = (found == shards.end() ? reader : *found).read<std::uint8_t>(name);
      return std::as_bytes(std::span(bytes));
    });
    const std::int64_t done = engine_.steps_done();
    check_saved("steps", done, static_cast<std::int64_t>(step), static_cast<std::int64_t>(step));
    seek(reader);
    report_.losses = reader.read<double>("losses");
    check_saved("losses", static_cast<std::int64_t>(report_.losses.size()), done, done);
    report_.validations = restore_validations(reader, done);
    if (!report_.validations.empty()) last_validation_ = report_.validations.back().step;
    total = reader.read_value<std::int64_t>("total steps");
    check_saved("total steps", total, 0, kMostSteps);
  });
  if (shards.size() > 1) static_cast<void>(reader.read_value<std::int32_t>(kRanks));
  for (CheckpointReader& shard : shards) {
    if (shards.size() > 1) static_cast<void>(shard.read_value<std::uint64_t>(kWriting));
    if (communicator().size() == 1) shard.reject_unread();  // else other ranks read the rest
  }
  meet_ranks();  // with the lock
  const bool decays = options_.learning_rate.decay != Decay::kConstant;
  if (decays && total != options_.learning_rate.total_steps) {
    note(fmt::format("the learning rate now falls to zero at step {}, not {}",
                     options_.learning_rate.total_steps, total));
  }
  note(fmt::format("resumed from {} after step {}", file.path.string(), engine_.steps_done()));
  last_checkpoint_ = engine_.steps_done();
  // An unfinished window is settled with the rate of its last step, even if no step follows.
  if (last_checkpoint_ > 0) {
    engine_.set_learning_rate(options_.learning_rate.at(last_checkpoint_ - 1));
  }
}

void Run::seek(CheckpointReader& reader) {
  const auto position = reader.read<std::uint64_t>("data position");
  check_saved("data position", static_cast<std::int64_t>(position.size()), 2, 2);
  const std::uint64_t samples = feed_->training_samples();
  // The numbers are unsigned: what is too large for a signed one is too large in any case.
  const auto check = [](std::string_view name, std::uint64_t found, std::uint64_t most) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    check_saved(name, static_cast<std::int64_t>(std::min(found, kMost)), 0,
                static_cast<std::int64_t>(most));
  };
  check("epochs of data", position[0], static_cast<std::uint64_t>(kMostSteps) / samples);
  check("samples of its epoch", position[1], samples - 1);
  feed_->seek({position[0], position[1]});
}

void Run::meet_ranks() {
  double here = 0;  // no number at all would be no exchange
  communicator().sum({&here, 1});
}

void Run::open_checkpoints() {
  if (!options_.checkpoint) return;
  if (communicator().rank() == 0) {
    std::optional<std::uint64_t> resumed;
    if (options_.resume) resumed = static_cast<std::uint64_t>(engine_.steps_done());
    checkpoints_.emplace(*options_.checkpoint, options_.checkpoints_kept, resumed);
    for (const auto& removed : checkpoints_->removed_remains()) {
      note(removed.generic_string() + ": removed what a killed run left");
    }
  }
  meet_ranks();  // nobody writes before
}

void Run::save_checkpoint() {
  const std::int64_t done = engine_.steps_done();
  if (!options_.checkpoint || last_checkpoint_ == done) return;
  const auto step = static_cast<std::uint64_t>(done);
  const int ranks = communicator().size();
  double writing = 0;
  if (communicator().rank() == 0) writing = std::random_device()();  // 32 bits
  communicator().sum({&writing, 1});
  const auto add_engine = [&](CheckpointWriter& writer) {
    if (ranks > 1) writer.add_value(kWriting, static_cast<std::uint64_t>(writing));
    EngineSections sections(writer);
    engine_.save(sections);
  };
  if (!checkpoints_) {
    save_shard(*options_.checkpoint, step, communicator().rank(), add_engine);
    meet_ranks();
  } else {
    checkpoints_->save(step, [&](CheckpointWriter& writer) {
      writer.add_text("identity", identity_);
      const DataPosition position = feed_->position();
      const std::vector<std::uint64_t> numbers = {position.epoch, position.index};
      writer.add("data position", std::span(numbers));
      writer.add("losses", std::span(report_.losses));
      save_validations(report_.validations, writer);
      const std::vector<std::int64_t> total = {options_.learning_rate.total_steps};
      writer.add("total steps", std::span(total));
      if (ranks > 1) writer.add_value(kRanks, std::int32_t{ranks});
      add_engine(writer);
      meet_ranks();  // this file's appearing says that the others are there
      for (int rank = 1; rank < ranks; ++rank) {
        const auto shard = shard_path(*options_.checkpoint, step, rank);
        if (std::filesystem::exists(shard)) continue;
        throw Error(ErrorKind::kRuntime, shard.generic_string() +
                                             ": is not there: --checkpoint has to be a folder that "
                                             "all ranks see");
      }
    });
  }
  last_checkpoint_ = done;
}

}  // namespace zenflow::runtime
