#include "runtime/trace/cupti/cupti_api.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

class Resolver {
 public:
  explicit Resolver(const std::function<void*(const char*)>& symbol) : symbol_(symbol) {}

  template <class Pointer>
  void optional(Pointer& function, const char* name) const {
    function = reinterpret_cast<Pointer>(symbol_(name));
  }
  template <class Pointer>
  void required(Pointer& function, const char* name) const {
    optional(function, name);
    if (function == nullptr) {
      throw Error(ErrorKind::kDevice,
                  fmt::format("CUPTI: expected the function {}, found none: another library, or "
                              "older than CUDA 12.0",
                              name));
    }
  }

 private:
  const std::function<void*(const char*)>& symbol_;
};

}  // namespace

CuptiApi resolve_cupti(const std::function<void*(const char*)>& symbol) {
  const Resolver find(symbol);
  CuptiApi api;
  find.required(api.get_version, "cuptiGetVersion");
  find.required(api.result_string, "cuptiGetResultString");
  find.required(api.subscribe, "cuptiSubscribe");
  find.required(api.unsubscribe, "cuptiUnsubscribe");
  find.required(api.enable_callback, "cuptiEnableCallback");
  find.required(api.callback_name, "cuptiGetCallbackName");
  find.required(api.set_thread_id_type, "cuptiSetThreadIdType");
  find.required(api.register_buffers, "cuptiActivityRegisterCallbacks");
  find.required(api.register_timestamp, "cuptiActivityRegisterTimestampCallback");
  find.required(api.set_attribute, "cuptiActivitySetAttribute");
  find.required(api.enable, "cuptiActivityEnable");
  find.required(api.disable, "cuptiActivityDisable");
  find.required(api.next_record, "cuptiActivityGetNextRecord");
  find.required(api.dropped_records, "cuptiActivityGetNumDroppedRecords");
  find.required(api.flush_all, "cuptiActivityFlushAll");
#if CUPTI_API_VERSION >= 23
  find.optional(api.enable_runtime_call, "cuptiActivityEnableRuntimeApi");
  find.optional(api.enable_driver_call, "cuptiActivityEnableDriverApi");
#endif
  return api;
}

std::string cupti_error_text(const CuptiApi& api, CUptiResult result) {
  const char* text = nullptr;
  if (api.result_string(result, &text) != CUPTI_SUCCESS || text == nullptr) text = "CUPTI error";
  return fmt::format("{} ({})", text, static_cast<int>(result));
}

}  // namespace zenflow::runtime
