/// Any bytes as the header of a safetensors file: tensors that cover the data exactly, or an input
/// error. The first two bytes are how many bytes of data there are.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/config/safetensors_header.h"
#include "tests/fuzz/expect_input_error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zenflow;
  using fuzz::require;
  if (size < 2) return 0;
  const std::uint64_t bytes = std::uint64_t{data[0]} << 8U | data[1];
  const std::string_view json(reinterpret_cast<const char*>(data) + 2, size - 2);
  fuzz::is_taken([&] {
    std::vector<StoredTensor> tensors = parse_safetensors_header(json, "fuzz.safetensors", bytes);
    const auto by_name = [](const StoredTensor& a, const StoredTensor& b) {
      return a.name < b.name;
    };
    require(std::is_sorted(tensors.begin(), tensors.end(), by_name), "tensors are by name");
    std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    std::uint64_t covered = 0;
    for (const StoredTensor& tensor : tensors) {
      require(tensor.begin == covered && tensor.end >= tensor.begin, "ranges follow each other");
      std::uint64_t expected = bytes_of_type(tensor.type);
      require(expected > 0, "a type is known");
      for (const std::int64_t extent : tensor.shape) {
        require(extent >= 0, "a shape has sizes");
        expected *= static_cast<std::uint64_t>(extent);
      }
      require(expected == tensor.end - tensor.begin, "shape and range agree");
      covered = tensor.end;
    }
    require(covered == bytes, "and cover the data");
  });
  return 0;
}
