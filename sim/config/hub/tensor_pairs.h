/// Tensors of two lists that are the same ones under other names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zenflow::sim::hub {

/// A tensor of one side that has no partner yet.
struct LoneTensor {
  std::string name;
  std::vector<std::int64_t> shape;  ///< empty if only its size is known
  std::int64_t elements = 0;
  bool paired = false;
};

/// Stacked experts may have their last two dimensions swapped: transformers' class may store
/// [experts, in, out] where the file has [experts, out, in].
[[nodiscard]] bool same_shape(const LoneTensor& a, const LoneTensor& b);

/// How alike two names are: mostly by how many of their last components are the same, where words
/// that families use for the same matrix ("query", "q_proj") count as one.
[[nodiscard]] int likeness(std::string_view a, std::string_view b);

/// Pairs those of the same shape, the names most alike first.
void pair_same_shapes(std::vector<LoneTensor*>& a, std::vector<LoneTensor*>& b);
/// Pairs a tensor of one side with two or three of the other one that are its parts along one
/// dimension: "gate_up_proj" with "gate_proj" and "up_proj".
void pair_joined(std::vector<LoneTensor*>& whole, std::vector<LoneTensor*>& parts);

}  // namespace zenflow::sim::hub
