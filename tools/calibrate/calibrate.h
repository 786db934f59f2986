/// The subcommands of zenflow-calibrate: each adds itself to the program.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace CLI {
class App;
}

namespace zenflow::tools {

/// Set by the subcommand that was chosen; returns the exit code.
using Command = std::function<int()>;

void add_doctor(CLI::App& app, Command& chosen);
void add_fit(CLI::App& app, Command& chosen);
void add_probe(CLI::App& app, Command& chosen);
void add_compare(CLI::App& app, Command& chosen);
void add_merge(CLI::App& app, Command& chosen);

}  // namespace zenflow::tools
