#include "runtime/cuda/cuda_model.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

[[noreturn]] void fail() {
  throw Error(ErrorKind::kDevice, "--device cuda: this build has no model for a GPU in it");
}

}  // namespace

std::unique_ptr<TrainingModel> make_cuda_model(const TransformerConfig&, std::int64_t, std::int64_t,
                                               ElementType, const LibrarySurroundings&, Device&) {
  fail();
}

std::uint64_t cuda_model_bytes(const TransformerConfig&, std::int64_t, std::int64_t, ElementType) {
  fail();
}

}  // namespace zenflow::runtime
