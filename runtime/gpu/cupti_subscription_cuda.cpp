#include <cuda_runtime_api.h>
#include <cupti.h>

#include "runtime/gpu/cupti_subscription.h"
#include "runtime/gpu/libraries.h"
#include "sim/base/error.h"

namespace zenflow::runtime {

static_assert(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED == kCuptiHeld);

std::optional<int> try_cupti_subscription(const LibraryFolders& folders) try {
  const DynamicLibrary cupti =
      DynamicLibrary::open(cupti_library(built_cuda_version() / 1000), folders);
  const auto subscribe = cupti.symbol<decltype(&cuptiSubscribe)>("cuptiSubscribe");
  const auto unsubscribe = cupti.symbol<decltype(&cuptiUnsubscribe)>("cuptiUnsubscribe");
  CUpti_SubscriberHandle subscriber = nullptr;
  const auto ignore = [](void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {};
  const CUptiResult status = subscribe(&subscriber, ignore, nullptr);
  if (status == CUPTI_SUCCESS) unsubscribe(subscriber);
  return static_cast<int>(status);
} catch (const Error&) {  // the library's own check reports that it is missing
  return std::nullopt;
}

}  // namespace zenflow::runtime
