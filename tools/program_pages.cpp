#include "tools/program_pages.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "sim/base/text.h"
#include "tools/command_line.h"
#include "tools/environment.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<const CLI::Option*> flags_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return !option->get_positional(); });
}

/// "-q", "--quiet".
std::vector<std::string> spellings(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> all_spellings(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* flag : flags_of(app)) {
    for (std::string& name : spellings(*flag)) names.push_back(std::move(name));
  }
  return names;
}

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

/// The words that it may be; empty: any. CLI::IsMember puts them into the type: "TEXT:{bf16,fp16}".
std::vector<std::string> choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

/// What stands for its value: the choices, else the type alone, without the limits behind it.
std::string value_name(const CLI::Option& option) {
  const std::vector<std::string> words = choices(option);
  const std::string type = option.get_type_name();
  return words.empty() ? type.substr(0, type.find(':')) : fmt::format("{}", fmt::join(words, "|"));
}

/// Text as troff prints it.
std::string troff(std::string_view text) {
  std::string escaped = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else if (c == '\n') {
      escaped += "\n.br\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string manual_option(const CLI::Option& option) {
  std::vector<std::string> names = spellings(option);
  if (option.get_positional()) names = {option.get_name(true)};
  for (std::string& name : names) name = fmt::format("\\fB{}\\fR", troff(name));
  const std::string value = takes_value(option) && !option.get_positional()
                                ? fmt::format(" \\fI{}\\fR", troff(value_name(option)))
                                : "";
  return fmt::format(".TP\n{}{}\n{}\n", fmt::join(names, ", "), value,
                     troff(option.get_description()));
}

std::string manual_options(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options({})) text += manual_option(*option);
  return text;
}

/// Within single quotes of zsh's _arguments, whose own signs are [, ] and :.
std::string zsh_quoted(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return shell_word(escaped);
}

/// What _arguments is told of an application's flags, one a line.
std::string zsh_flags(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* flag : flags_of(app)) {
    std::string value;
    if (takes_value(*flag)) {
      const std::vector<std::string> words = choices(*flag);
      value = words.empty() ? ":value:_files" : fmt::format(":value:({})", fmt::join(words, " "));
    }
    for (const std::string& name : spellings(*flag)) {
      // Repeatable ones begin with a star.
      const bool repeats = flag->get_expected_max() > 1 ||
                           flag->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
      text += fmt::format("    {}{}'['{}']{}' \\\n", repeats ? "'*'" : "", name,
                          zsh_quoted(flag->get_description()), value);
    }
  }
  return text;
}

/// A name that shells take for a function's.
std::string function_name(const CLI::App& app) {
  std::string name = "_" + app.get_name();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// Where bash is after a flag with few values: a line of its `case`.
std::string bash_choices(const CLI::App& app, const std::string& command) {
  std::string text;
  for (const CLI::Option* flag : flags_of(app)) {
    const std::vector<std::string> words = choices(*flag);
    if (words.empty()) continue;
    for (const std::string& name : spellings(*flag)) {
      text += fmt::format("    {}:{}) COMPREPLY=($(compgen -W '{}' -- \"$word\")); return ;;\n",
                          command, name, fmt::join(words, " "));
    }
  }
  return text;
}

}  // namespace

std::string manual_page(const CLI::App& app) {
  const std::string& name = app.get_name();
  const std::vector<const CLI::App*> commands = commands_of(app);
  std::string title = name;
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string text = fmt::format(
      ".TH {} 1 \"\" \"{} {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n{}\n",
      troff(title), troff(name), kVersion, troff(name), troff(app.get_description()), troff(name),
      commands.empty() ? "[OPTIONS]" : "COMMAND [OPTIONS]");
  text += ".SH OPTIONS\n" + manual_options(app);
  if (!commands.empty()) text += ".SH COMMANDS\n";
  for (const CLI::App* command : commands) {
    text += fmt::format(".SS {}\n{}\n{}", troff(command->get_name()),
                        troff(command->get_description()), manual_options(*command));
  }
  if (!app.get_footer().empty()) text += ".SH NOTES\n" + troff(app.get_footer()) + "\n";
  return text;
}

std::string bash_completion(const CLI::App& app) {
  const std::vector<const CLI::App*> commands = commands_of(app);
  std::vector<std::string> names;
  std::string values = bash_choices(app, "");
  std::string flags = fmt::format("    *) words='{}' ;;\n", fmt::join(all_spellings(app), " "));
  for (const CLI::App* command : commands) {
    const std::string& name = command->get_name();
    names.push_back(name);
    values += bash_choices(*command, name);
    flags.insert(
        0, fmt::format("    {}) words='{}' ;;\n", name, fmt::join(all_spellings(*command), " ")));
  }
  const std::string function = function_name(app);
  // A file is what most values and arguments are.
  return fmt::format(
      R"(# bash completion of {0}, made from its help
{1}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} command= words= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ " {2} " == *" ${{COMP_WORDS[i]}} "* ]]; then command=${{COMP_WORDS[i]}}; break; fi
  done
  case $command:${{COMP_WORDS[COMP_CWORD - 1]}} in
{3}    :*) ;;
  esac
  case $command in
{4}  esac
  if [[ $word != -* ]]; then words=; fi
  if [[ -z $command && $word != -* ]]; then words='{2}'; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F {1} {0}
)",
      app.get_name(), function, fmt::join(names, " "), values, flags);
}

std::string zsh_completion(const CLI::App& app) {
  std::string text =
      fmt::format("#compdef {0}\n# zsh completion of {0}, made from its help\n", app.get_name());
  const std::vector<const CLI::App*> commands = commands_of(app);
  if (commands.empty()) {
    return text + fmt::format("_arguments -s \\\n{}    '*:file:_files'\n", zsh_flags(app));
  }
  std::string described;
  text += "case ${words[2]} in\n";
  for (const CLI::App* command : commands) {
    const std::string& name = command->get_name();
    text += fmt::format(
        "  {})\n    shift words; ((CURRENT--))\n    _arguments -s \\\n{}"
        "    '*:file:_files' ;;\n",
        name, zsh_flags(*command));
    described += fmt::format("      {}:{} \\\n", name, zsh_quoted(command->get_description()));
  }
  return text + fmt::format(
                    "  *)\n    local -a commands=( \\\n{}    )\n"
                    "    if ((CURRENT == 2)); then _describe command commands; fi\n"
                    "    _arguments -s \\\n{}    '*:file:_files' ;;\nesac\n",
                    described, zsh_flags(app));
}

bool print_page(const CLI::App& app, int argc, char** argv) {
  if (argc != 3 || std::string_view(argv[1]) != "--print-page") return false;
  const std::string page = argv[2];
  if (const std::string wrong = check_choice({"man", "bash", "zsh"}, page); !wrong.empty()) {
    throw Error(ErrorKind::kInput, "--print-page: " + wrong);
  }
  print(page == "man"    ? manual_page(app)
        : page == "bash" ? bash_completion(app)
                         : zsh_completion(app));
  return true;
}

}  // namespace zenflow::tools
