#include <algorithm>
#include <array>
#include <thread>

#include <fmt/format.h>

#include "runtime/probe/background.h"
#include "runtime/probe/cpu_adam.h"
#include "runtime/probe/probe.h"

namespace zenflow::runtime {
namespace {

constexpr double kGiga = 1e9;
constexpr std::size_t kSmallest = std::size_t{4} << 10;

const char* name(CopyDirection direction) {
  return direction == CopyDirection::kHostToDevice ? "h2d" : "d2h";
}
ProbeLane lane_of(CopyDirection direction) {
  return direction == CopyDirection::kHostToDevice ? ProbeLane::kH2D : ProbeLane::kD2H;
}

/// A pair of arrays for each direction, and pageable memory that both use.
class Copies final : public ExperimentGroup {
 public:
  Copies(ProbeDevice& device, const CpuTopology& topology, const ProbeSettings& settings)
      : device_(device),
        cores_(topology.cores()),
        largest_(settings.largest_copy),
        factor_(settings.quick ? 16 : 4),
        parameters_(std::min(kMostParameters, settings.array_bytes / sizeof(float))) {}

  [[nodiscard]] std::string name() const override { return "copies"; }

  void prepare() override {
    for (std::size_t d = 0; d < 2; ++d) {
      on_device_.at(d) = device_.allocate(ProbeMemory::kDevice, largest_);
      pinned_.at(d) = device_.allocate(ProbeMemory::kPinned, largest_);
    }
    pageable_ = device_.allocate(ProbeMemory::kPageable, largest_);
    pool_ = optimizer_pool(static_cast<int>(cores_.size()), cores_);
    for (std::vector<float>& array : adam_) array.assign(parameters_, 0.5F);
  }

  void release() override {
    on_device_ = {};
    pinned_ = {};
    pageable_ = {};
    pool_.reset();
    for (std::vector<float>& array : adam_) array = {};
  }

  [[nodiscard]] std::vector<Experiment> experiments() override {
    std::vector<Experiment> list;
    for (const CopyDirection direction :
         {CopyDirection::kHostToDevice, CopyDirection::kDeviceToHost}) {
      const std::string prefix = fmt::format("copy.{}", runtime::name(direction));
      for (const bool pinned : {true, false}) {
        const char* memory = pinned ? "pinned" : "pageable";
        for (const std::size_t bytes : sizes()) {
          list.push_back({fmt::format("{}.{}.{}", prefix, memory, size_name(bytes)), "GB/s",
                          fmt::format("one copy, {} memory, alone", memory),
                          [=, this] { return one_copy(direction, pinned, bytes); }});
        }
        list.push_back(
            {fmt::format("{}.{}.largest", prefix, memory), "GB/s",
             fmt::format("one copy of {}, {} memory, alone", size_name(largest_), memory),
             [=, this] { return one_copy(direction, pinned, largest_); }});
      }
      list.push_back({prefix + ".beside_adam", "GB/s",
                      "as pinned.largest, beside CPU Adam on all cores", [=, this] {
                        const Background adam([this] { update(); });
                        return one_copy(direction, true, largest_);
                      }});
    }
    list.push_back({"copy.both", "GB/s", "sum of both directions at once, pinned, largest copy",
                    [this] { return both(); }});
    list.push_back({"adam.alone", "GB/s", "CPU Adam on all cores, 28 B a parameter, alone",
                    [this] { return adam_rate(); }});
    list.push_back(
        {"adam.beside_copies", "GB/s", "the same beside copies in both directions", [this] {
           const Background copies([this] { static_cast<void>(both()); });
           return adam_rate();
         }});
    return list;
  }

 private:
  [[nodiscard]] std::vector<std::size_t> sizes() const {
    std::vector<std::size_t> all;
    for (std::size_t bytes = kSmallest; bytes < largest_; bytes *= factor_) all.push_back(bytes);
    return all;
  }

  void enqueue(CopyDirection direction, bool pinned, std::size_t bytes) {
    const auto d = static_cast<std::size_t>(direction);
    void* host = (pinned ? pinned_.at(d) : pageable_).data();
    void* device = on_device_.at(d).data();
    const bool up = direction == CopyDirection::kHostToDevice;
    device_.copy(lane_of(direction), up ? device : host, up ? host : device, bytes, direction);
  }

  double one_copy(CopyDirection direction, bool pinned, std::size_t bytes) {
    // A short copy is timed in a row of them: the marks' own time would show.
    const std::size_t copies = bytes < kMiB ? 16 : 1;
    const ProbeLane lane = lane_of(direction);
    if (pinned) device_.occupy(lane);  // the host itself moves pageable memory
    const auto begin = device_.mark(lane);
    for (std::size_t i = 0; i < copies; ++i) enqueue(direction, pinned, bytes);
    const auto end = device_.mark(lane);
    return static_cast<double>(copies * bytes) / device_.seconds(*begin, *end) / kGiga;
  }

  double both() {
    const auto begin_up = device_.mark(ProbeLane::kH2D);
    const auto begin_down = device_.mark(ProbeLane::kD2H);
    enqueue(CopyDirection::kHostToDevice, true, largest_);
    enqueue(CopyDirection::kDeviceToHost, true, largest_);
    const auto end_up = device_.mark(ProbeLane::kH2D);
    const auto end_down = device_.mark(ProbeLane::kD2H);
    // From the first begin to the last end.
    double seconds = 0;
    for (const auto& begin : {begin_up, begin_down}) {
      for (const auto& end : {end_up, end_down}) {
        seconds = std::max(seconds, device_.seconds(*begin, *end));
      }
    }
    return 2 * static_cast<double>(largest_) / seconds / kGiga;
  }

  void update() {
    update_all(*pool_, {adam_[0].data(), adam_[1].data(), adam_[2].data(), adam_[3].data()},
               parameters_);
  }
  double adam_rate() {
    const auto begin = Clock::now();
    update();
    const std::chrono::duration<double> time = Clock::now() - begin;
    return static_cast<double>(parameters_) * kAdamBytesPerParameter / time.count() / kGiga;
  }

  static constexpr std::size_t kMostParameters = std::size_t{24} << 20;  // 384 MiB of arrays

  ProbeDevice& device_;
  std::vector<int> cores_;
  std::size_t largest_;
  std::size_t factor_;
  std::size_t parameters_;
  std::array<Buffer, 2> on_device_;  // by CopyDirection
  std::array<Buffer, 2> pinned_;     // by CopyDirection
  Buffer pageable_;
  std::unique_ptr<ThreadPool> pool_;
  std::array<std::vector<float>, 4> adam_;
};

}  // namespace

std::unique_ptr<ExperimentGroup> copy_experiments(ProbeDevice& device, const CpuTopology& topology,
                                                  const ProbeSettings& settings) {
  return std::make_unique<Copies>(device, topology, settings);
}

}  // namespace zenflow::runtime
