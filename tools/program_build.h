/// Which build of a program this is.
#pragma once

#include <string>

namespace zenflow::tools {

/// The linker's build id, in hexadecimal digits: another for any other code or constant. Throws
/// Error(kRuntime) if the program was linked without one.
[[nodiscard]] std::string program_build();

}  // namespace zenflow::tools
