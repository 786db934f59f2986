#include "runtime/cuda/nccl_communicator.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "kernels/cuda/cuda_check.h"
#include "runtime/cuda/cuda_stream.h"
#include "runtime/cuda/nccl.h"
#include "runtime/gpu/libraries.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

/// What NCCL calls a version: 22809 is 2.28.9, and up to 2.8 2804 is 2.8.4.
std::string version_text(int version) {
  if (version < 10000) {
    return fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100);
  }
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Communicator& control, const NcclFunctions& functions, int ordinal,
                   std::optional<DynamicLibrary> library = std::nullopt)
      : library_(std::move(library)), control_(control), nccl_(functions) {
    int version = 0;
    check(nccl_.get_version(&version), "ncclGetVersion");
    if (version < kNcclOldestVersion) {
      throw Error(ErrorKind::kDevice,
                  fmt::format("NCCL {}: {} or newer is needed", version_text(version),
                              version_text(kNcclOldestVersion)));
    }
    kernels::cuda_check(cudaSetDevice(ordinal), "cudaSetDevice");
    check(nccl_.comm_init_rank(&comm_, size(), common_id(), rank()), "ncclCommInitRank");
  }
  ~NcclCommunicator() override { nccl_.comm_destroy(comm_); }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return control_.rank(); }
  [[nodiscard]] int size() const override { return control_.size(); }

  void sum(std::span<double> values) override {
    int failure = kNcclSuccess;
    check(nccl_.comm_get_async_error(comm_, &failure), "ncclCommGetAsyncError");
    check(failure, "NCCL");
    control_.sum(values);
  }
  void share(int owner, std::span<float> values) override { control_.share(owner, values); }
  void gather_norms(std::span<const std::size_t> first, std::span<std::byte> norms) override {
    control_.gather_norms(first, norms);
  }
  [[nodiscard]] ClockOffset clock_offset() override { return control_.clock_offset(); }

  void reduce(Device&, Stream& stream, Label label, ElementType type,
              std::span<const OwnedTensor> tensors) override {
    const int element = type == ElementType::kFloat32 ? kNcclFloat32 : kNcclBfloat16;
    const OperationScope scope = launching(stream, label);
    check(nccl_.group_start(), "ncclGroupStart");
    for (const auto& [owner, values, n] : tensors) {
      if (rank() != owner) gradient_bytes_ += n * bytes_per_element(type);
      check(nccl_.reduce(values, values, n, element, kNcclSum, owner, comm_, handle_of(stream)),
            "ncclReduce");
    }
    check(nccl_.group_end(), "ncclGroupEnd");
  }
  void broadcast(Device&, Stream& stream, Label label, ElementType type,
                 std::span<const OwnedTensor> tensors) override {
    const OperationScope scope = launching(stream, label);
    check(nccl_.group_start(), "ncclGroupStart");
    for (const auto& [owner, values, n] : tensors) {
      const std::size_t bytes = n * bytes_per_element(type);
      if (rank() == owner) weight_bytes_ += bytes * static_cast<std::uint64_t>(size() - 1);
      check(nccl_.broadcast(values, values, bytes, kNcclUint8, owner, comm_, handle_of(stream)),
            "ncclBroadcast");
    }
    check(nccl_.group_end(), "ncclGroupEnd");
  }

  [[nodiscard]] RankTraffic traffic() const override {
    RankTraffic all = control_.traffic();
    all.gradients += gradient_bytes_;
    all.weights += weight_bytes_;
    return all;
  }

 protected:
  void end_others(int code) override { control_.end_job(code); }

 private:
  void check(int status, const char* call) const {
    if (status == kNcclSuccess || status == kNcclInProgress) return;
    std::string text = fmt::format("{}: {}", call, nccl_.get_error_string(status));
    if (nccl_.get_last_error != nullptr) {
      if (const char* const more = nccl_.get_last_error(nullptr); more != nullptr && *more != 0) {
        text += fmt::format(" ({})", more);
      }
    }
    throw Error(ErrorKind::kRuntime, text);
  }

  /// Rank 0's, byte by byte.
  [[nodiscard]] NcclUniqueId common_id() const {
    NcclUniqueId id{};
    if (rank() == 0) check(nccl_.get_unique_id(&id), "ncclGetUniqueId");
    std::array<double, sizeof id.bytes> values{};
    std::transform(id.bytes.begin(), id.bytes.end(), values.begin(),
                   [](char byte) { return static_cast<double>(byte); });
    control_.sum(values);
    std::transform(values.begin(), values.end(), id.bytes.begin(),
                   [](double value) { return static_cast<char>(value); });
    return id;
  }

  std::optional<DynamicLibrary> library_;  // open until the last call
  Communicator& control_;
  NcclFunctions nccl_;
  NcclComm comm_ = nullptr;
  std::uint64_t gradient_bytes_ = 0;
  std::uint64_t weight_bytes_ = 0;
};

}  // namespace

NcclFunctions nccl_functions(const DynamicLibrary& library) {
  NcclFunctions all{};
  const auto find = [&library](auto& function, const char* name) {
    function = library.symbol<std::remove_reference_t<decltype(function)>>(name);
  };
  find(all.get_version, "ncclGetVersion");
  find(all.get_error_string, "ncclGetErrorString");
  find(all.get_unique_id, "ncclGetUniqueId");
  find(all.comm_init_rank, "ncclCommInitRank");
  find(all.comm_get_async_error, "ncclCommGetAsyncError");
  find(all.comm_destroy, "ncclCommDestroy");
  find(all.group_start, "ncclGroupStart");
  find(all.group_end, "ncclGroupEnd");
  find(all.reduce, "ncclReduce");
  find(all.broadcast, "ncclBroadcast");
  if (library.has("ncclGetLastError")) find(all.get_last_error, "ncclGetLastError");
  return all;
}

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& control,
                                                     const NcclFunctions& functions, int ordinal) {
  return std::make_unique<NcclCommunicator>(control, functions, ordinal);
}

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& control,
                                                     const LibraryFolders& folders, int ordinal) {
  DynamicLibrary library = DynamicLibrary::open(nccl_library(built_cuda_version() / 1000), folders);
  const NcclFunctions functions = nccl_functions(library);
  return std::make_unique<NcclCommunicator>(control, functions, ordinal, std::move(library));
}

}  // namespace zenflow::runtime
