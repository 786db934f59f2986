/// The emulator's answer to whether there is a usable GPU, in the place of the driver's.
#include "runtime/gpu/driver.h"

namespace zenflow::runtime {

DriverAnswer ask_driver() {
  return {.built_with = 13000, .devices = 1, .supports = 13000};
}

}  // namespace zenflow::runtime
