/// What activities are called in a trace, as the PyTorch profiler calls them.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/trace/cupti/activity.h"

namespace zenflow::runtime {

/// "Memcpy HtoD (Pinned -> Device)", "Memset (Device)". Numbers that CUPTI does not name are
/// "Unknown". Source of names: pytorch/kineto, CuptiActivity and cupti_strings.
[[nodiscard]] std::string copy_name(const Activity& activity);
[[nodiscard]] std::string memset_name(const Activity& activity);
[[nodiscard]] std::string synchronization_name(SynchronizationType type);
/// `kind`: CUpti_ActivityOverheadKind's number.
[[nodiscard]] std::string overhead_name(std::uint32_t kind);

/// A kernel's name as it is written in C++; a name that is not mangled stays. Bytes that are not
/// UTF-8 are replaced: names are the traced program's and go into JSON.
[[nodiscard]] std::string readable_name(const std::string& name);

}  // namespace zenflow::runtime
