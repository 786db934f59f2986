/// Flags that describe a job in place of a scenario.
#pragma once

#include "tools/commands/commands.h"

namespace CLI {
class App;
}

namespace zenflow::tools {

void add_job_options(CLI::App& command, CommonOptions& common);

}  // namespace zenflow::tools
