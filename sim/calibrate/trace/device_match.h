/// Whether two names are of one GPU: traces and profiles write them differently.
#pragma once

#include <string_view>

namespace zenflow::sim {

/// "NVIDIA H100 80GB HBM3" and "H100-SXM5-80GB": the model is the same, and memory and PCIe are
/// not said to differ.
[[nodiscard]] bool same_device(std::string_view a, std::string_view b);

}  // namespace zenflow::sim
