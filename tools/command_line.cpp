#include "tools/command_line.h"

#include <algorithm>
#include <cstdint>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "sim/config/reader.h"
#include "tools/environment.h"
#include "tools/program_pages.h"

namespace zenflow::tools {
namespace {

/// CLI11 knows options by one spelling: "--update_interval" is "--update-interval" to it.
std::vector<std::string> with_dashes(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) {
    std::string argument = argv[i];
    if (argument.starts_with("--")) {
      const std::size_t end = std::min(argument.find('='), argument.size());
      std::replace(argument.begin() + 2, argument.begin() + static_cast<std::ptrdiff_t>(end), '_',
                   '-');
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;  // reversed, as CLI11 takes them
}

/// Long flags of the program and of the command that was given.
std::vector<std::string> flags(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App* command : app.get_subcommands()) {
    const std::vector<std::string> more = flags(*command);
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

/// CLI11 lists flags and their values alike, in an order of its own.
std::string unexpected(const CLI::App& app, const std::string& message) {
  for (const std::string& argument : app.remaining(true)) {
    if (!argument.starts_with("-")) continue;
    const std::string flag = argument.substr(0, argument.find('='));
    return flag + ": unknown option" + suggestion(flag, flags(app));
  }
  return message;
}

/// "--gpus: At Most 1 required but received 2"
std::string without_most(std::string message) {
  constexpr std::string_view kMost = ": At Most 1 required but received ";
  const std::size_t at = message.find(kMost);
  if (at == std::string::npos) return message;
  const std::string times = message.substr(at + kMost.size());
  return message.substr(0, at) + ": given " + (times == "2" ? "twice" : times + " times");
}

}  // namespace

bool parse_command_line(CLI::App& app, int argc, char** argv) {
  if (print_page(app, argc, argv)) return false;
  const auto fail = [&app](const std::string& what) {
    throw Error(ErrorKind::kInput, fmt::format("{}; see {} --help", what, app.get_name()));
  };
  try {
    app.parse(with_dashes(argc, argv));
  } catch (const CLI::ExtrasError& error) {
    fail(unexpected(app, error.what()));
  } catch (const CLI::ArgumentMismatch& error) {
    fail(without_most(error.what()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) fail(error.what());
    std::ostringstream out;  // --help, --version
    app.exit(error, out, out);
    print(out.str());
    return false;
  }
  return true;
}

void need(CLI::App& app, CLI::Option* needed, std::initializer_list<const char*> options) {
  for (const char* name : options) app.get_option(name)->needs(needed);
}

void exclude(CLI::App& app, CLI::Option* other, std::initializer_list<const char*> options) {
  for (const char* name : options) app.get_option(name)->excludes(other);
}

CLI::Validator number_between(double low, double high) {
  const std::string range = fmt::format("{} - {}", low, high);
  const auto check = [=](const std::string& text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return "";
    return fmt::format("expected a number from {} to {}, found \"{}\"", low, high, text);
  };
  return {check, "NUMBER in [" + range + "]", "number_between"};
}

CLI::Validator a_count() {
  static constexpr std::int64_t kMost = std::int64_t{1} << 24;
  return CLI::Validator(
      [](const std::string& text) {
        std::int64_t value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= 1 && value <= kMost) {
          return std::string();
        }
        return fmt::format("expected a whole number from 1 to {}, found \"{}\"", kMost, text);
      },
      "INT in [1 - 16777216]");
}

std::string check_choice(const std::vector<std::string>& choices, const std::string& value) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return "";
  return fmt::format("expected one of {}; found \"{}\"{}", fmt::join(choices, ", "), value,
                     suggestion(value, choices));
}

}  // namespace zenflow::tools
