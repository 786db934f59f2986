/// Where tests on a GPU look for its libraries: where the programs do.
#pragma once

#include <cstdlib>
#include <map>
#include <string>

#include "runtime/gpu/dynamic_library.h"

namespace zenflow::testing {

inline runtime::LibraryFolders library_folders_of_this_process() {
  std::map<std::string, std::string> environment;
  for (const char* name : {"ZENFLOW_CUDA_LIB_DIR", "CUDA_HOME", "VIRTUAL_ENV"}) {
    if (const char* value = std::getenv(name)) environment[name] = value;
  }
  return runtime::library_folders(environment);
}

}  // namespace zenflow::testing
