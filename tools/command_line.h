/// What the programs' command lines have in common.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace zenflow::tools {

/// Parses the arguments; false if help, the version or a page (tools/program_pages.h) were asked
/// for and have been printed. Underscores in flags count as dashes. Throws Error(kInput) with the
/// nearest flag for one that is not known.
[[nodiscard]] bool parse_command_line(CLI::App& app, int argc, char** argv);

/// Options that have no effect without `needed`, which are refused without it.
void need(CLI::App& app, CLI::Option* needed, std::initializer_list<const char*> options);
/// Options that have no effect with `other`, which are refused with it.
void exclude(CLI::App& app, CLI::Option* other, std::initializer_list<const char*> options);

/// A check of a flag's value. CLI::Range lets "nan" through, which is neither below nor above.
[[nodiscard]] CLI::Validator number_between(double low, double high);

/// A check of a number of things: whole, at least one, and no more than anybody has.
[[nodiscard]] CLI::Validator a_count();

/// " (did you mean ...?)" and the like for a value that must be one of `choices`; "" if it is.
[[nodiscard]] std::string check_choice(const std::vector<std::string>& choices,
                                       const std::string& value);

}  // namespace zenflow::tools
