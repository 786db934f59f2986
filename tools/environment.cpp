#include "tools/environment.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <system_error>

#include <dlfcn.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sim/base/error.h"
#include "sim/base/stop.h"
#include "sim/base/text.h"
#include "sim/config/document.h"
#include "sim/config/reader.h"

namespace zenflow::tools {
namespace {

namespace fs = std::filesystem;

// Asked by other threads than the one that the handler interrupts.
std::atomic<int> caught_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may use it");

thread_local bool styles_output = false;                 // what is printed may have colours
thread_local CapturedOutput::Texts* captured = nullptr;  // where it goes instead of the streams

extern "C" void note_signal(int number) {
  caught_signal = number;
}

std::optional<std::string> variable(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::string(text);
}

/// The shared library that this code is in, else the program.
fs::path this_file() {
  Dl_info found{};
  const bool known = ::dladdr(reinterpret_cast<const void*>(&run_program), &found) != 0;
  // Of a program that is its first argument, whatever that may be.
  std::error_code unknown;
  if (known && fs::path(found.dli_fname).extension() == ".so") {
    return fs::canonical(found.dli_fname, unknown);
  }
  return fs::read_symlink("/proc/self/exe", unknown);
}

/// Folders that may hold what ships with the program: the source tree it was built in, or
/// share/zenflow-sim of the place it was installed to.
std::vector<fs::path> shipped_roots() {
  std::vector<fs::path> roots;
  fs::path folder = this_file().parent_path();
  constexpr int kDepth = 4;  // build/PRESET/tools/zenflow-sim, lib/zenflow-sim/libzenflow.so
  for (int i = 0; i < kDepth && folder.has_relative_path(); ++i) {
    roots.push_back(folder / "share" / "zenflow-sim");
    roots.push_back(folder);
    folder = folder.parent_path();
  }
  return roots;
}

std::optional<fs::path> default_config_file() {
  if (const auto home = variable("XDG_CONFIG_HOME")) return fs::path(*home) / "zenflow/config.yaml";
  if (const auto home = variable("HOME")) return fs::path(*home) / ".config/zenflow/config.yaml";
  return std::nullopt;
}

int report_errors(const char* name, const std::function<int()>& body) {
  try {
    return body();
  } catch (const Error& error) {
    complain(fmt::format("{}: {}\n", name, error.what()));
    return error_exit_code(error);
  } catch (const std::bad_alloc&) {
    complain(fmt::format("{}: out of memory\n", name));
  } catch (const std::system_error& error) {
    // No thread, a folder that is gone, a name that is too long: of files with their path.
    complain(fmt::format("{}: the system refuses: {}\n", name, error.what()));
  } catch (const std::exception& error) {
    complain(fmt::format("{}: internal error: {}\n", name, error.what()));
  }
  return static_cast<int>(ErrorKind::kRuntime);
}

constexpr std::size_t kStackBytes = 8 << 20;

/// Whether this thread, and those that it makes, have less stack than readers of nested texts and
/// libraries below them count on (`ulimit -s`).
bool has_small_stack() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < kStackBytes;
}

struct Work {
  const char* name;
  const std::function<int()>* body;
  int code;
  CapturedOutput::Texts* captured;
};

extern "C" void* work_on_thread(void* argument) {
  auto* work = static_cast<Work*>(argument);
  captured = work->captured;
  work->code = report_errors(work->name, *work->body);
  return nullptr;
}

/// On a thread with a stack of its own, and so are all threads from now on.
int run_on_large_stack(const char* name, const std::function<int()>& body) {
  Work work{name, &body, static_cast<int>(ErrorKind::kRuntime), captured};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  static_cast<void>(pthread_setattr_default_np(&attributes));
  pthread_t thread{};
  const bool runs = pthread_create(&thread, &attributes, work_on_thread, &work) == 0;
  pthread_attr_destroy(&attributes);
  if (!runs) return report_errors(name, body);
  // Signals are that thread's, which may block some (delay_suspension).
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  pthread_join(thread, nullptr);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return work.code;
}

}  // namespace

int run_program(const char* name, const std::function<int()>& body) {
  return has_small_stack() ? run_on_large_stack(name, body) : report_errors(name, body);
}

namespace {

bool is_ignored(int signal) {
  struct sigaction present {};
  return sigaction(signal, nullptr, &present) == 0 && present.sa_handler == SIG_IGN;
}

}  // namespace

void catch_signals(std::initializer_list<int> more) {
  std::vector<int> numbers = {SIGINT, SIGTERM};
  numbers.insert(numbers.end(), more);
  for (const int number : numbers) {
    if (number == SIGHUP && is_ignored(number)) continue;
    struct sigaction action {};
    action.sa_handler = note_signal;
    // One more signal ends the program at once.
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(number, &action, nullptr);
  }
  // A closed pipe and a limit on the size of files are errors of what is written.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  set_stop_question([] { return caught_signal != 0; });
}

void ask_to_stop(bool stop) {
  caught_signal = stop ? SIGINT : 0;
}

bool finishes(const std::function<void()>& work) {
  try {
    work();
  } catch (const Stopped&) {
    return false;
  }
  return true;
}

void delay_suspension() {
  if (is_ignored(SIGTSTP)) return;
  sigset_t suspension;
  sigemptyset(&suspension);
  sigaddset(&suspension, SIGTSTP);
  pthread_sigmask(SIG_BLOCK, &suspension, nullptr);
}

bool suspension_asked() {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGTSTP) == 1;
}

int signal_exit_code() {
  constexpr int kSignalBase = 128;
  const int number = caught_signal;
  return number == 0 ? 0 : kSignalBase + number;
}

int error_exit_code(const Error& error) {
  const bool is_stopped = error.kind() == ErrorKind::kRuntime && signal_exit_code() != 0;
  return is_stopped ? signal_exit_code() : static_cast<int>(error.kind());
}

bool is_terminal(std::FILE* stream) {
  return captured == nullptr && ::isatty(::fileno(stream)) == 1;
}

std::size_t columns_of(std::FILE* stream) {
  winsize size{};
  constexpr std::size_t kUsual = 80;
  const bool says = ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return says ? size.ws_col : kUsual;
}

bool use_color(ColorMode mode, std::FILE* stream) {
  if (mode != ColorMode::kAuto) return mode == ColorMode::kAlways;
  return is_terminal(stream) && !variable("NO_COLOR") &&
         variable("TERM").value_or("dumb") != "dumb";
}

Defaults::Defaults(const std::optional<fs::path>& config) {
  const std::optional<fs::path> file = config ? config : default_config_file();
  std::error_code missing;
  if (!file || (!config && !fs::exists(*file, missing))) return;
  const Node root = load_document(*file);
  MapReader map(root, "");
  for (const char* key : {"profile", "color"}) {
    if (const auto value = map.optional(key)) from_file_[key] = value->string();
  }
  map.reject_unknown_keys();
}

std::optional<std::string> Defaults::value(const std::string& option) const {
  std::string name = "ZENFLOW_";
  for (const char c : option) name += c == '-' ? '_' : static_cast<char>(std::toupper(c));
  if (auto text = variable(name.c_str())) return text;
  const auto entry = from_file_.find(option);
  if (entry == from_file_.end()) return std::nullopt;
  return entry->second;
}

namespace {

bool is_colored(const std::optional<std::string>& color, const Defaults& defaults) {
  const std::array<std::string, 3> modes = {"auto", "always", "never"};
  const std::string mode = color ? *color : defaults.value("color").value_or("auto");
  if (mode == modes[1]) return use_color(ColorMode::kAlways, stdout);
  if (mode == modes[2]) return use_color(ColorMode::kNever, stdout);
  if (mode == modes[0]) return use_color(ColorMode::kAuto, stdout);
  throw Error(ErrorKind::kInput,
              fmt::format("color: expected auto, always or never, found \"{}\"{}", mode,
                          suggestion(mode, modes)));
}

}  // namespace

bool colored_output(const std::optional<std::string>& color, const Defaults& defaults) {
  styles_output = is_colored(color, defaults);
  return styles_output;
}

std::vector<fs::path> profile_directories(const fs::path& scenario) {
  std::vector<fs::path> folders = {scenario.parent_path() / ".." / "profiles", "profiles"};
  if (const auto home = variable("XDG_DATA_HOME"))
    folders.push_back(fs::path(*home) / "zenflow/profiles");
  for (const fs::path& root : shipped_roots()) folders.push_back(root / "profiles");
  return folders;
}

fs::path published_rows() {
  const fs::path file = fs::path("docs") / "accuracy" / "published" / "rows.yaml";
  std::error_code missing;
  if (fs::exists(file, missing)) return file;
  for (const fs::path& root : shipped_roots()) {
    if (fs::exists(root / file, missing)) return root / file;
  }
  throw Error(ErrorKind::kInput, fmt::format("no {}, neither here nor with the program; expected "
                                             "--published FILE",
                                             file.generic_string()));
}

std::vector<fs::path> model_directories() {
  std::vector<fs::path> folders = {"scenarios/models"};
  for (const fs::path& root : shipped_roots()) folders.push_back(root / "scenarios" / "models");
  return folders;
}

std::map<std::string, std::string> environment_variables() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != text.npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

CapturedOutput::CapturedOutput() {
  captured = &texts_;
  set_stop_question([] { return caught_signal != 0; });
}

CapturedOutput::~CapturedOutput() {
  captured = nullptr;
}

void print(const std::string& given) {
  const std::string text = printable(given, styles_output);
  if (captured != nullptr) {
    captured->out += text;
    return;
  }
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error(ErrorKind::kRuntime, "cannot write to standard output");
  }
}

void complain(const std::string& given) {
  const std::string text = printable(given);
  if (captured != nullptr) {
    captured->err += text;
    return;
  }
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void rewrite_line(const std::string& line) {
  // A longer line would wrap, and only its end be rewritten. A byte that continues a character of
  // UTF-8 takes no column.
  std::string cut = printable_name(line);
  std::size_t columns = columns_of(stderr) - 1;
  std::size_t end = 0;
  for (; end < cut.size(); ++end) {
    if ((static_cast<unsigned char>(cut[end]) & 0xC0U) == 0x80U) continue;
    if (columns-- == 0) break;
  }
  cut.resize(end);
  const std::string text = "\r\033[K" + cut;
  std::fwrite(text.data(), 1, text.size(), stderr);
}

std::string date_or_today(const std::string& text) {
  if (text.empty()) {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    ::gmtime_r(&now, &utc);
    return fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
  }
  const bool is_date = text.size() == 10 && text.find_first_not_of("0123456789-") == text.npos &&
                       text[4] == '-' && text[7] == '-';
  if (is_date) return text;
  throw Error(ErrorKind::kInput,
              fmt::format("--date: expected a date such as 2026-11-20, found \"{}\"", text));
}

}  // namespace zenflow::tools
