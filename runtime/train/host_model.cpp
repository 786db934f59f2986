#include "runtime/train/host_model.h"

#include <vector>

#include "runtime/device/host_stream.h"

namespace zenflow::runtime {

bool HostModel::shared(std::size_t parameter) const {
  // A tied head adds to the token embedding, which is the table's first parameter.
  return parameter == 0 && transformer_.config().has_tied_head();
}

// The spans' contents may change before the stream comes to them: it gets copies.
void HostModel::forward(std::size_t group, std::span<const void* const> weights, Stream& compute) {
  static_cast<HostStream&>(compute).run({Operation::kForward},
                                        [this, group, begins = std::exchange(next_, std::nullopt),
                                         w = std::vector(weights.begin(), weights.end())] {
                                          if (begins)
                                            transformer_.begin(begins->first, begins->second);
                                          transformer_.forward(group, w);
                                        });
}

void HostModel::backward(std::size_t group, std::span<const void* const> weights,
                         std::span<void* const> gradients, Stream& compute) {
  static_cast<HostStream&>(compute).run(
      {Operation::kBackward}, [this, group, w = std::vector(weights.begin(), weights.end()),
                               g = std::vector(gradients.begin(), gradients.end())] {
        transformer_.backward(group, w, g);
      });
}

}  // namespace zenflow::runtime
