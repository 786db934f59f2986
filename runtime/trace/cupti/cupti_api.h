/// The functions of CUPTI that are called, as pointers: the library is opened at run time, and
/// tests put their own in its place.
#pragma once

#include <functional>
#include <string>

#include <cupti.h>

namespace zenflow::runtime {

/// All are there, but those marked optional: null in a CUPTI that is older than them.
struct CuptiApi {
  decltype(&cuptiGetVersion) get_version = nullptr;
  decltype(&cuptiGetResultString) result_string = nullptr;
  decltype(&cuptiSubscribe) subscribe = nullptr;
  decltype(&cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&cuptiEnableCallback) enable_callback = nullptr;
  decltype(&cuptiGetCallbackName) callback_name = nullptr;
  decltype(&cuptiSetThreadIdType) set_thread_id_type = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_buffers = nullptr;
  decltype(&cuptiActivityRegisterTimestampCallback) register_timestamp = nullptr;
  decltype(&cuptiActivitySetAttribute) set_attribute = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
#if CUPTI_API_VERSION >= 23                                                // CUDA 12.5
  decltype(&cuptiActivityEnableRuntimeApi) enable_runtime_call = nullptr;  // optional
  decltype(&cuptiActivityEnableDriverApi) enable_driver_call = nullptr;    // optional
#endif
};

/// `symbol` finds a function by its name in CUPTI's library, or returns null: dlsym, or
/// DynamicLibrary. Throws Error(kDevice) naming the first required function that is missing.
[[nodiscard]] CuptiApi resolve_cupti(const std::function<void*(const char*)>& symbol);

/// "CUPTI_ERROR_UNKNOWN (999)".
[[nodiscard]] std::string cupti_error_text(const CuptiApi& api, CUptiResult result);

}  // namespace zenflow::runtime
