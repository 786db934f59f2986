/// Pages made of what a program's own help says: its manual, and completion for shells.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace zenflow::tools {

/// A manual page of section 1, in troff's man macros: description, options and commands.
[[nodiscard]] std::string manual_page(const CLI::App& app);
/// A script that bash sources: completes commands, flags, and values where there are few.
[[nodiscard]] std::string bash_completion(const CLI::App& app);
/// The same for zsh, with descriptions, as a file of $fpath: "_zenflow-sim".
[[nodiscard]] std::string zsh_completion(const CLI::App& app);

/// Whether the arguments are "--print-page man", "bash" or "zsh", for those who install programs;
/// then it has been printed. Throws Error(kInput) for another page.
[[nodiscard]] bool print_page(const CLI::App& app, int argc, char** argv);

}  // namespace zenflow::tools
