#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "runtime/probe/background.h"
#include "runtime/probe/probe.h"

namespace zenflow::runtime {
namespace {

constexpr double kGiga = 1e9;
constexpr double kMicro = 1e-6;

/// Time between marks around `enqueue`, in the compute lane.
template <class Enqueue>
double time_in_lane(ProbeDevice& device, Enqueue enqueue) {
  device.occupy(ProbeLane::kCompute);
  const auto begin = device.mark(ProbeLane::kCompute);
  enqueue();
  const auto end = device.mark(ProbeLane::kCompute);
  return device.seconds(*begin, *end);
}

/// Memory of the device by its streaming kernels, alone and beside copies.
class Memory final : public ExperimentGroup {
 public:
  Memory(ProbeDevice& device, const ProbeSettings& settings)
      : device_(device), bytes_(settings.device_array_bytes), n_(bytes_ / sizeof(float)) {}

  [[nodiscard]] std::string name() const override { return "device memory"; }
  void prepare() override {
    for (Buffer& array : arrays_) array = device_.allocate(ProbeMemory::kDevice, bytes_);
    host_ = device_.allocate(ProbeMemory::kPinned, bytes_);
  }
  void release() override {
    arrays_ = {};
    host_ = {};
  }

  [[nodiscard]] std::vector<Experiment> experiments() override {
    return {{"memory.update", "GB/s", "y += s x in device memory, 12 B an element",
             [this] { return update_rate(); }},
            {"memory.pass", "GB/s", "y = s x in device memory, 8 B an element",
             [this] { return pass_rate(); }},
            {"memory.update.beside_copies", "GB/s", "y += s x beside H2D copies",
             [this] {
               const Background copies([this] { static_cast<void>(copy_rate()); });
               return update_rate();
             }},
            {"copy.h2d.beside_kernels", "GB/s", "H2D copies, pinned, beside y += s x on the device",
             [this] {
               const Background kernels([this] { static_cast<void>(update_rate()); });
               return copy_rate();
             }}};
  }

 private:
  double rate(double bytes_per_element, double seconds) const {
    return static_cast<double>(n_) * bytes_per_element / seconds / kGiga;
  }
  double update_rate() {
    return rate(kUpdateBytes, time_in_lane(device_, [this] {
                  device_.update(ProbeLane::kCompute, arrays_[0].as<float>(),
                                 arrays_[1].as<float>(), n_);
                }));
  }
  double pass_rate() {
    return rate(kPassBytes, time_in_lane(device_, [this] {
                  device_.pass(ProbeLane::kCompute, arrays_[0].as<float>(), arrays_[1].as<float>(),
                               n_);
                }));
  }
  double copy_rate() {
    device_.occupy(ProbeLane::kH2D);
    const auto begin = device_.mark(ProbeLane::kH2D);
    device_.copy(ProbeLane::kH2D, arrays_[2].data(), host_.data(), bytes_,
                 CopyDirection::kHostToDevice);
    const auto end = device_.mark(ProbeLane::kH2D);
    return static_cast<double>(bytes_) / device_.seconds(*begin, *end) / kGiga;
  }

  ProbeDevice& device_;
  std::size_t bytes_;
  std::size_t n_;
  std::array<Buffer, 3> arrays_;
  Buffer host_;
};

/// Matrix products, and those of attention: a batch of heads, q k^T and then scores times v.
class Products final : public ExperimentGroup {
 public:
  Products(ProbeDevice& device, const ProbeSettings& settings)
      : device_(device),
        products_(probe_products(settings.largest_product, settings.quick)),
        shortest_(settings.largest_product / 40),
        attention_(settings.attention) {}

  [[nodiscard]] std::string name() const override { return "products"; }
  void prepare() override {
    const auto width = static_cast<std::size_t>(sim::bytes_per_element(device_.product_type()));
    const auto [heads, length, head_dim] = attention_;
    std::array<std::int64_t, 4> most = {heads * length * head_dim, heads * length * head_dim,
                                        heads * length * length, heads * length * head_dim};
    for (const NamedProduct& product : products_) {
      const auto [m, n, k] = product.shape;
      most = {std::max(most[0], m * k), std::max(most[1], k * n), std::max(most[2], m * n),
              most[3]};
    }
    for (std::size_t i = 0; i < most.size(); ++i) {
      arrays_[i] =
          device_.allocate(ProbeMemory::kDevice, static_cast<std::size_t>(most[i]) * width);
      device_.fill(arrays_[i]);
    }
  }
  void release() override { arrays_ = {}; }

  [[nodiscard]] std::vector<Experiment> experiments() override {
    std::vector<Experiment> list;
    for (const NamedProduct& product : products_) {
      const auto [m, n, k] = product.shape;
      list.push_back({"product." + product.name, "GFLOPS",
                      fmt::format("[{}, {}] x [{}, {}] in {}", m, k, k, n,
                                  sim::to_string(device_.product_type())),
                      [this, product] { return rate({product.shape}); }});
    }
    list.push_back(
        {"attention", "GFLOPS",
         fmt::format("q k^T and scores v of {} heads of {} x {}, without softmax; FLOPs of "
                     "the causal half",
                     attention_.heads, attention_.length, attention_.head_dim),
         [this] { return attention_rate(); }});
    return list;
  }

 private:
  double rate(const ProbeProduct& product) {
    const auto [m, n, k] = product.shape;
    const double flops =
        2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    // A short product is timed in a row of them: the marks' own time would show.
    constexpr double kMost = 64;
    const auto times = static_cast<int>(std::clamp(std::ceil(shortest_ / flops), 1.0, kMost));
    const double seconds = time_in_lane(device_, [&] {
      for (int i = 0; i < times; ++i) multiply(product);
    });
    return times * flops / seconds / kGiga;
  }
  double attention_rate() {
    const auto [heads, length, head_dim] = attention_;
    const double seconds = time_in_lane(device_, [&, heads = heads, length = length,
                                                  head_dim = head_dim] {
      multiply({.shape = {length, length, head_dim}, .batch = heads, .b_transposed = true});
      // Scores take the place of a [length, length] operand.
      device_.multiply(ProbeLane::kCompute, {.shape = {length, head_dim, length}, .batch = heads},
                       arrays_[2].data(), arrays_[1].data(), arrays_[3].data());
    });
    const double causal = 2.0 * static_cast<double>(heads * head_dim) *
                          static_cast<double>(length) * static_cast<double>(length);
    return causal / seconds / kGiga;
  }
  void multiply(const ProbeProduct& product) {
    device_.multiply(ProbeLane::kCompute, product, arrays_[0].data(), arrays_[1].data(),
                     arrays_[2].data());
  }

  ProbeDevice& device_;
  std::vector<NamedProduct> products_;
  double shortest_;  // FLOPs of a measurement
  AttentionSize attention_;
  std::array<Buffer, 4> arrays_;  // a, b, c; what attention gives: not q, which would grow
};

/// What small things cost.
class Latencies final : public ExperimentGroup {
 public:
  explicit Latencies(ProbeDevice& device) : device_(device) {}

  [[nodiscard]] std::string name() const override { return "latencies"; }
  void prepare() override {
    on_device_ = device_.allocate(ProbeMemory::kDevice, kCopy);
    host_ = device_.allocate(ProbeMemory::kPinned, kCopy);
  }
  void release() override {
    on_device_ = {};
    host_ = {};
  }

  [[nodiscard]] std::vector<Experiment> experiments() override {
    return {{"latency.kernel", "us", "device time of one of 1000 empty kernels in a row",
             [this] {
               return time_in_lane(device_,
                                   [this] {
                                     for (int i = 0; i < kRow; ++i)
                                       device_.nothing(ProbeLane::kCompute);
                                   }) /
                      kRow / kMicro;
             }},
            {"latency.launch", "us", "host time to enqueue an empty kernel, mean of 1000",
             [this] {
               const auto begin = Clock::now();
               for (int i = 0; i < kRow; ++i) device_.nothing(ProbeLane::kCompute);
               const double time = since(begin);
               device_.synchronize(ProbeLane::kCompute);
               return time / kRow / kMicro;
             }},
            {"latency.round_trip", "us",
             "an empty kernel in an idle lane until the host has seen it end",
             [this] {
               const auto begin = Clock::now();
               device_.nothing(ProbeLane::kCompute);
               device_.synchronize(ProbeLane::kCompute);
               return since(begin) / kMicro;
             }},
            {"latency.event", "us", "host time to record an event, mean of 1000",
             [this] {
               const auto begin = Clock::now();
               for (int i = 0; i < kRow; ++i) last_ = device_.mark(ProbeLane::kCompute);
               const double time = since(begin);
               device_.synchronize(ProbeLane::kCompute);
               return time / kRow / kMicro;
             }},
            {"latency.synchronize", "us", "host time to wait for an idle lane",
             [this] {
               device_.synchronize(ProbeLane::kCompute);
               const auto begin = Clock::now();
               device_.synchronize(ProbeLane::kCompute);
               return since(begin) / kMicro;
             }},
            {"latency.copy", "us",
             "a copy of 4 KiB, pinned, in an idle lane until the host has seen it end", [this] {
               const auto begin = Clock::now();
               device_.copy(ProbeLane::kH2D, on_device_.data(), host_.data(), kCopy,
                            CopyDirection::kHostToDevice);
               device_.synchronize(ProbeLane::kH2D);
               return since(begin) / kMicro;
             }}};
  }

 private:
  static double since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  static constexpr int kRow = 1000;
  static constexpr std::size_t kCopy = 4096;

  ProbeDevice& device_;
  Buffer on_device_;
  Buffer host_;
  std::shared_ptr<ProbeMark> last_;  // so that marks are made and not optimised away
};

}  // namespace

std::unique_ptr<ExperimentGroup> memory_experiments(ProbeDevice& device,
                                                    const ProbeSettings& settings) {
  return std::make_unique<Memory>(device, settings);
}
std::unique_ptr<ExperimentGroup> product_experiments(ProbeDevice& device,
                                                     const ProbeSettings& settings) {
  return std::make_unique<Products>(device, settings);
}
std::unique_ptr<ExperimentGroup> latency_experiments(ProbeDevice& device) {
  return std::make_unique<Latencies>(device);
}

}  // namespace zenflow::runtime
