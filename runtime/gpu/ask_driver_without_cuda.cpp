#include "runtime/gpu/driver.h"
#include "runtime/gpu/driver_release_file.h"

namespace zenflow::runtime {

DriverAnswer ask_driver() {
  DriverAnswer answer;
  answer.release = installed_driver_release();
  return answer;
}

}  // namespace zenflow::runtime
