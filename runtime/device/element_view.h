/// From an ElementType to the C++ type that it stands for, for the devices' kernels.
#pragma once

#include <type_traits>

#include "kernels/bf16/bf16.h"
#include "kernels/matrix_view.h"
#include "runtime/device/device.h"

namespace zenflow::runtime {

/// Calls `function` with a null pointer of the C++ type that `type` stands for.
template <class Function>
void with_type(ElementType type, Function&& function) {
  switch (type) {
    case ElementType::kFloat32:
      return function(static_cast<float*>(nullptr));
    case ElementType::kBfloat16:
      return function(static_cast<kernels::Bf16*>(nullptr));
  }
}
template <class Pointer>
using Pointee = std::remove_pointer_t<Pointer>;

template <class E>
[[nodiscard]] kernels::MatrixView<E> view(const DeviceMatrix& matrix) {
  return {static_cast<const E*>(matrix.values), matrix.rows, matrix.columns, matrix.columns};
}

}  // namespace zenflow::runtime
