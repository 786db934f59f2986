#include "sim/trace/import/kineto_event.h"

#include <array>
#include <cstring>

#include <simdjson.h>

#include "sim/base/text.h"
#include "sim/trace/import/json_stream.h"
#include "sim/trace/import/json_text.h"
#include "sim/trace/import/operation_shapes.h"

namespace zenflow::sim {
namespace {

namespace ondemand = simdjson::ondemand;

static_assert(JsonStream::kPadding >= simdjson::SIMDJSON_PADDING);

/// Without escapes resolved: no key that is looked for has any.
std::string_view key_of(ondemand::field& field) {
  const char* first = field.key().raw();
  const char* last = first;
  while (*last != '"') last += *last == '\\' ? 2 : 1;
  return {first, static_cast<std::size_t>(last - first)};
}

/// The raw text of any value.
simdjson::error_code raw_text(ondemand::value& value, std::string_view& out) {
  ondemand::json_type type{};
  if (const auto error = value.type().get(type)) return error;
  if (type == ondemand::json_type::object) {
    ondemand::object object;
    if (const auto error = value.get_object().get(object)) return error;
    return object.raw_json().get(out);
  }
  if (type == ondemand::json_type::array) {
    ondemand::array array;
    if (const auto error = value.get_array().get(array)) return error;
    return array.raw_json().get(out);
  }
  out = value.raw_json_token();
  return simdjson::SUCCESS;
}

/// Where an argument that is a list of shapes, types or values belongs; nullptr: nowhere.
std::string_view* shape_argument(std::string_view key, KinetoEvent& event) {
  if (key == "Input Dims" || key == "Input dims") return &event.input_dims;
  if (key == "Input type") return &event.input_types;
  if (key == "Concrete Inputs") return &event.concrete_inputs;
  return nullptr;
}

struct Row {
  std::string_view category;
  EventClass is;
};

template <std::size_t N>
EventClass class_in(const std::array<Row, N>& rows, std::string_view category) {
  for (const Row& row : rows) {
    if (row.category == category) return row.is;
  }
  return EventClass::kUnknown;
}

/// Rarer ones. Case does not matter, as in PyTorch's own viewer (tb_plugin). Kineto's categories of
/// CUDA begin with the kind of device, and those of others follow them: "cuda_runtime",
/// "xpu_runtime", "gpu_memcpy", "mlu_memcpy", "GCU_MEMCPY". Not all that has such a beginning is
/// work, a call or a wait: "mtia_ccp_events" are the control processor's, "cuda_profiler_range"
/// counters with times that the profiler made up.
EventClass class_of_rare(std::string_view category) {
  static constexpr std::array<Row, 9> kWhole{{{"kernel", EventClass::kKernel},
                                              {"concurrent_kernel", EventClass::kKernel},
                                              {"memcpy", EventClass::kCopy},
                                              {"memset", EventClass::kMemset},
                                              {"runtime", EventClass::kCall},
                                              {"operator", EventClass::kHostOperation},
                                              {"python", EventClass::kHostOperation},
                                              {"python_function", EventClass::kHostOperation},
                                              {"pythonfunction", EventClass::kHostOperation}}};
  static constexpr std::array<std::string_view, 10> kDevices = {
      "cuda_", "gpu_", "hip_", "xpu_", "mtia_", "privateuse1_", "mlu_", "gcu_", "musa_", "npu_"};
  static constexpr std::array<Row, 6> kOfDevices{{{"runtime", EventClass::kCall},
                                                  {"driver", EventClass::kCall},
                                                  {"sync", EventClass::kSync},
                                                  {"memcpy", EventClass::kCopy},
                                                  {"memset", EventClass::kMemset},
                                                  {"user_annotation", EventClass::kGpuRange}}};
  constexpr std::size_t kLongest = 32;
  if (category.size() > kLongest) return EventClass::kUnknown;
  std::string text(category);
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const std::string_view small = text;
  for (const std::string_view device : kDevices) {
    if (small.starts_with(device)) return class_in(kOfDevices, small.substr(device.size()));
  }
  return class_in(kWhole, small);
}

/// What is computed again when the timeline is written: it would be there twice.
bool is_derived(std::string_view key) {
  return key == "memory bandwidth (GB/s)";
}

}  // namespace

struct KinetoEventParser::Library {
  ondemand::parser parser;
};

KinetoEventParser::KinetoEventParser() : library_(std::make_unique<Library>()) {}
KinetoEventParser::~KinetoEventParser() = default;

/// A scalar without quotes and escapes.
std::string_view KinetoEventParser::readable(std::string_view token) {
  const std::string_view text = bare(token);
  if (std::memchr(text.data(), '\\', text.size()) == nullptr) return text;
  // None is used twice for one event: views of it are out.
  if (used_ == unescaped_.size()) unescaped_.emplace_back();
  std::string& made = unescaped_[used_++];
  made = unescape(text);
  return made;
}

bool KinetoEventParser::parse(std::string_view text, KinetoEvent& event) {
  had_bad_utf8_ = false;
  auto error = static_cast<simdjson::error_code>(parse_once(text, event));
  if (error == simdjson::UTF8_ERROR || error == simdjson::UNESCAPED_CHARS) {
    had_bad_utf8_ = !is_utf8(text);
    repaired_ = with_controls_escaped(as_utf8(text));
    const std::size_t length = repaired_.size();
    repaired_.append(JsonStream::kPadding, '\0');
    error = static_cast<simdjson::error_code>(
        parse_once(std::string_view(repaired_).substr(0, length), event));
  }
  if (error == simdjson::SUCCESS) return true;
  problem_ = simdjson::error_message(error);
  return false;
}

/// Whether the event has a place for an argument; if so, it is there.
bool KinetoEventParser::take_argument(std::string_view key, std::string_view token,
                                      KinetoEvent& event) {
  const bool is_metadata = event.phase == 'M';
  if (key == "device") {
    event.device = whole_number(token);
  } else if (key == "stream") {
    event.stream = whole_number(token);
  } else if (key == "correlation") {
    event.correlation = whole_number(token);
  } else if (key == "bytes" || key == "Bytes") {
    event.bytes = whole_number(token);
  } else if (key == "step") {
    event.step = whole_number(token);
  } else if (key == "stalled_us") {
    event.stalled = bare(token);
  } else if (key == "cause") {
    event.cause = readable(token);
  } else if (key == "name") {
    event.label = readable(token);
    return is_metadata;
  } else if (key == "sort_index" && is_metadata) {
    event.sort_index = whole_number(token);
  } else {
    // Read, and a field all the same: nothing else on a timeline says it.
    if (key == "In msg nelems") event.message_elements = whole_number(token);
    if (key == "dtype") event.element_type = readable(token);
    if (key == "Group size") event.group_size = whole_number(token);
    return is_derived(key);
  }
  return true;
}

int KinetoEventParser::read_args(void* value, KinetoEvent& event) {
  ondemand::object args;
  // Chrome allows anything; only an object has fields.
  if (static_cast<ondemand::value*>(value)->get_object().get(args) != simdjson::SUCCESS) {
    return simdjson::SUCCESS;
  }
  for (auto entry : args) {
    ondemand::field field;
    if (const auto error = std::move(entry).get(field)) return error;
    const std::string_view key = key_of(field);
    ondemand::value item = field.value();
    std::string_view* const shape = shape_argument(key, event);
    const bool is_taken = take_argument(key, item.raw_json_token(), event);
    if (shape == nullptr && (is_taken || !keeps_fields_)) continue;
    std::string_view raw;
    if (const auto error = raw_text(item, raw)) return error;
    if (shape != nullptr) *shape = trimmed(raw);
    if (keeps_fields_) fields_.emplace_back(unescape(key), trimmed(raw));
  }
  return simdjson::SUCCESS;
}

int KinetoEventParser::parse_once(std::string_view text, KinetoEvent& event) {
  event = {};
  fields_.clear();
  used_ = 0;
  ondemand::document document;
  const simdjson::padded_string_view padded(text.data(), text.size(),
                                            text.size() + JsonStream::kPadding);
  if (const auto error = library_->parser.iterate(padded).get(document)) return error;
  ondemand::object object;
  if (const auto error = document.get_object().get(object)) return error;

  for (auto entry : object) {
    ondemand::field field;
    if (const auto error = std::move(entry).get(field)) return error;
    const std::string_view key = key_of(field);
    ondemand::value value = field.value();
    if (key == "ph") {
      const std::string_view phase = bare(value.raw_json_token());
      event.phase = phase.size() == 1 ? phase.front() : '?';
    } else if (key == "cat") {
      event.category = readable(value.raw_json_token());
    } else if (key == "name") {
      event.name = readable(value.raw_json_token());
    } else if (key == "pid") {
      event.process = readable(value.raw_json_token());
    } else if (key == "tid") {
      event.thread = readable(value.raw_json_token());
    } else if (key == "ts") {
      event.start = bare(value.raw_json_token());
    } else if (key == "dur") {
      event.duration = bare(value.raw_json_token());
    } else if (key == "id") {
      event.id = readable(value.raw_json_token());
    } else if (key == "args") {
      const bool is_read = keeps_fields_ || event.category.empty() ||
                           class_of(event.category) != EventClass::kHostOperation ||
                           has_wanted_shape(event.name);
      if (is_read) {
        if (const int error = read_args(&value, event); error != simdjson::SUCCESS) return error;
      }
    }
  }
  return simdjson::SUCCESS;
}

EventClass class_of(std::string_view category) {
  static constexpr std::array<Row, 10> kUsual{{{"kernel", EventClass::kKernel},
                                               {"gpu_memcpy", EventClass::kCopy},
                                               {"gpu_memset", EventClass::kMemset},
                                               {"cuda_runtime", EventClass::kCall},
                                               {"cuda_driver", EventClass::kCall},
                                               {"cpu_op", EventClass::kHostOperation},
                                               {"python_function", EventClass::kHostOperation},
                                               {"user_annotation", EventClass::kRange},
                                               {"gpu_user_annotation", EventClass::kGpuRange},
                                               {"cuda_sync", EventClass::kSync}}};
  const EventClass usual = class_in(kUsual, category);
  return usual == EventClass::kUnknown ? class_of_rare(category) : usual;
}

}  // namespace zenflow::sim
