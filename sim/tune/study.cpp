#include "sim/tune/study.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <unistd.h>

#include "sim/base/database_guard.h"
#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "sim/base/stop.h"
#include "sim/deepspeed/ds_document.h"

namespace zenflow::sim {
namespace {

constexpr const char* kFormat = "2";
constexpr const char* kOther =
    "is a study of another scenario, schedule or build of the program; give another folder, or "
    "remove it";

constexpr const char* kInUse = "is in use by another program; wait for it, or give another folder";
constexpr const char* kNoStudy = "is no study of zenflow-tune; remove it, or give another folder";

/// Numbers of an evaluation in the order of the table's columns.
std::vector<double> numbers(const Evaluation& one) {
  std::vector<double> all = {
      one.step_time,         one.micro_step, one.compute,
      one.d2h_bytes,         one.h2d_bytes,  one.model_sizes,
      one.tokens_per_second, one.mfu,        static_cast<double>(one.staleness),
      one.gpu_bytes};
  all.insert(all.end(), one.stall.begin(), one.stall.end());
  all.insert(all.end(), one.needs.begin(), one.needs.end());
  return all;
}

constexpr std::size_t kNumbers = 10 + kStallCauses + kMemoryLimits;
constexpr std::size_t kStalenessAt = 8;

/// Whether an evaluation can have them: no search writes another number.
bool are_possible(const std::vector<double>& all) {
  constexpr double kMostSteps = 1e15;
  const double staleness = all[kStalenessAt];
  return std::all_of(all.begin(), all.end(), [](double one) { return std::isfinite(one); }) &&
         staleness >= 0 && staleness <= kMostSteps;
}

Evaluation evaluation_of(const std::vector<double>& all) {
  Evaluation one;
  std::size_t next = 0;
  for (double* number : {&one.step_time, &one.micro_step, &one.compute, &one.d2h_bytes,
                         &one.h2d_bytes, &one.model_sizes, &one.tokens_per_second, &one.mfu}) {
    *number = all[next++];
  }
  one.staleness = static_cast<std::int64_t>(all[next++]);
  one.gpu_bytes = all[next++];
  for (double& stall : one.stall) stall = all[next++];
  for (double& need : one.needs) need = all[next++];
  return one;
}

std::string key_text(const Setting& setting) {
  std::string key;
  for (const KnobInfo& one : knobs()) {
    key += fmt::format("{}{}={}", key.empty() ? "" : " ", one.name,
                       value_text(one.knob, setting.get(one.knob)));
  }
  return key;
}

}  // namespace

struct Study::Database {
  int folder = -1;  ///< holds the lock
  sqlite3* handle = nullptr;
  std::filesystem::path path;
  std::map<std::string, Evaluation, std::less<>> known;

  ~Database() {
    close();
    if (folder >= 0) static_cast<void>(::close(folder));
  }
  void close() {
    static_cast<void>(sqlite3_close(handle));
    handle = nullptr;
  }

  [[noreturn]] void fail(ErrorKind kind, const std::string& what) const {
    throw Error(kind, fmt::format("{}: {}", path.generic_string(), what));
  }
  /// What SQLite could not do, `code` being why.
  [[noreturn]] void fail_with(int code) const {
    const std::string why = sqlite3_errmsg(handle);
    switch (code) {
      case SQLITE_INTERRUPT:
        throw Stopped();
      case SQLITE_BUSY:
        fail(ErrorKind::kInput, kInUse);
      case SQLITE_NOTADB:
        fail(ErrorKind::kInput, kNoStudy);
      case SQLITE_CORRUPT:
      case SQLITE_ERROR:  // such as a schema format that SQLite does not have
      case SQLITE_TOOBIG:
      case SQLITE_CONSTRAINT:
      case SQLITE_MISMATCH:
      case SQLITE_AUTH:
        fail_damaged(why);
      case SQLITE_CANTOPEN:
      case SQLITE_READONLY:
        fail(ErrorKind::kInput, "cannot be written: " + why);
      default:
        fail(ErrorKind::kRuntime, "cannot be written: " + why);
    }
  }
  [[noreturn]] void fail_damaged(const std::string& how) const {
    fail(ErrorKind::kInput, fmt::format("is damaged ({}): remove it, or give another folder", how));
  }
  void run(const std::string& sql) const {
    const int code = sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) fail_with(code);
  }

  /// Keeps other runs from the folder until this one ends, however it ends. Of those that come at
  /// the same time exactly one gets it, which SQLite's own locks would not see to.
  void lock_folder() {
    const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
    folder = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0 && ::flock(folder, LOCK_EX | LOCK_NB) == 0) return;
    const int error = errno;
    if (folder >= 0 && error == EWOULDBLOCK) fail(ErrorKind::kInput, kInUse);
    fail(ErrorKind::kInput,
         fmt::format("cannot lock the folder: {}", std::system_category().message(error)));
  }
  /// Opens or creates, and begins a transaction whose lock stays until the database is closed: it
  /// keeps off other programs, and runs on other machines that share the folder.
  void open() {
    // SQLite opens what lies beside a database as well, and would wait for a pipe's other end.
    for (const char* beside : {"-journal", "-wal", "-shm"}) {
      std::filesystem::path file = path;
      file += beside;
      check_output(file, true);
    }
    if (sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                        nullptr) != SQLITE_OK) {
      fail(ErrorKind::kInput, fmt::format("cannot be opened: {}", sqlite3_errmsg(handle)));
    }
    guard_database(handle);
    run("PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE");
  }
};

namespace {

/// A prepared statement that ends with its scope.
class Statement {
 public:
  Statement(sqlite3* handle, const char* sql) {
    status_ = sqlite3_prepare_v2(handle, sql, -1, &statement_, nullptr);
  }
  ~Statement() { static_cast<void>(sqlite3_finalize(statement_)); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  [[nodiscard]] bool ready() const { return status_ == SQLITE_OK; }
  void bind(int column, const std::string& text) {
    status_ |= sqlite3_bind_text(statement_, column, text.c_str(), static_cast<int>(text.size()),
                                 SQLITE_TRANSIENT);
  }
  void bind(int column, const std::vector<double>& numbers) {
    status_ |=
        sqlite3_bind_blob(statement_, column, numbers.data(),
                          static_cast<int>(numbers.size() * sizeof(double)), SQLITE_TRANSIENT);
  }
  void bind(int column, std::uint64_t number) {
    status_ |= sqlite3_bind_int64(statement_, column, static_cast<sqlite3_int64>(number));
  }
  [[nodiscard]] int step() { return sqlite3_step(statement_); }
  /// Writes what is bound, and is ready for the next row.
  void finish_row(const Study::Database& database) {
    const int code = step();
    if (code != SQLITE_DONE) database.fail_with(code);
    static_cast<void>(sqlite3_reset(statement_));
  }
  [[nodiscard]] std::string text(int column) const {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
    return bytes == nullptr ? "" : std::string(bytes, size);
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int status_ = SQLITE_OK;
};

}  // namespace

std::string study_identity(const std::string& program_version, const ScenarioTree& tree,
                           const std::vector<Override>& overrides, const TuneRequest& request) {
  std::string identity =
      fmt::format("zenflow-tune {}\nschedule {}\nglobal batch {}\n", program_version,
                  to_string(request.family), request.global_batch);
  for (const Override& one : overrides) identity += fmt::format("set {}={}\n", one.path, one.value);
  return identity + render_json(tree.root);
}

namespace {

/// The first column of the first row.
std::string answer_to(const Study::Database& database, const char* question) {
  Statement statement(database.handle, question);
  const int code = statement.ready() ? statement.step() : sqlite3_errcode(database.handle);
  if (code != SQLITE_ROW) database.fail_with(code);
  return statement.text(0);
}

/// SQLite takes what is missing of a last page for zeros. With a log that has not been applied yet,
/// the log has that page.
bool is_cut_off(const Study::Database& database) {
  std::filesystem::path log = database.path;
  log += "-wal";
  std::error_code missing;
  const std::uintmax_t logged = std::filesystem::file_size(log, missing);
  if (!missing && logged > 0) return false;
  const std::uintmax_t page = std::stoull(answer_to(database, "PRAGMA page_size"));
  return std::filesystem::file_size(database.path) % page != 0;
}

/// Nothing that is read may be what nobody wrote.
void refuse_damage(const Study::Database& database) {
  const std::string damage = answer_to(database, "PRAGMA quick_check(1)");
  if (damage != "ok") database.fail_damaged(damage);
  if (is_cut_off(database)) database.fail_damaged("its end is missing");
}

/// The tables of a study, as sqlite_master has them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kTables = {{
    {"study", "CREATE TABLE study (key TEXT PRIMARY KEY, value TEXT)"},
    {"evaluations", "CREATE TABLE evaluations (setting TEXT PRIMARY KEY, numbers BLOB)"},
    {"counts", "CREATE TABLE counts (ending TEXT PRIMARY KEY, settings INTEGER)"},
}};

std::string create_table(std::size_t table) {
  return std::string(kTables[table].second) + ";";
}

/// A view, a trigger, or a table that computes what it has, would run what somebody else wrote.
void refuse_other_schema(const Study::Database& database) {
  Statement list(database.handle, "SELECT type, name, sql FROM sqlite_master");
  if (!list.ready()) database.fail_with(sqlite3_errcode(database.handle));
  int status = list.step();
  for (; status == SQLITE_ROW; status = list.step()) {
    const std::string type = list.text(0);
    const std::string name = list.text(1);
    const bool is_own_index = type == "index" && name.starts_with("sqlite_autoindex_");
    const bool is_known =
        type == "table" && std::any_of(kTables.begin(), kTables.end(), [&](const auto& table) {
          return table.first == name && table.second == list.text(2);
        });
    if (!is_own_index && !is_known) {
      database.fail(ErrorKind::kInput, fmt::format("{} (it has the {} {})", kNoStudy, type, name));
    }
  }
  if (status != SQLITE_DONE) database.fail_with(status);
}

/// Tables and the identity. A study that is killed before they are committed is an empty database.
void initialise(const Study::Database& database, const std::string& identity) {
  database.run(create_table(0) + create_table(1));
  {
    Statement write(database.handle, "INSERT INTO study VALUES (?, ?)");
    for (const auto& [key, value] : {std::pair<std::string, std::string>{"format", kFormat},
                                     std::pair<std::string, std::string>{"identity", identity}}) {
      write.bind(1, key);
      write.bind(2, value);
      write.finish_row(database);
    }
  }
  database.run("COMMIT");
}

}  // namespace

Study::Study(const std::filesystem::path& path, const std::string& identity,
             const Candidates& candidates)
    : database_(std::make_unique<Database>()), candidates_(&candidates) {
  database_->path = path;
  database_->lock_folder();
  std::error_code error;
  const bool is_new = !std::filesystem::exists(path, error);
  try {
    open(identity);
  } catch (const Error&) {
    database_->close();
    if (is_new) static_cast<void>(std::filesystem::remove(path, error));
    throw;
  }
  // A killed process loses nothing that was committed; no wait for the disk at every batch.
  database_->run("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;");
}

void Study::open(const std::string& identity) {
  database_->open();
  if (answer_to(*database_, "SELECT count(*) FROM sqlite_master") == "0") {
    initialise(*database_, identity);
    return;
  }
  refuse_other_schema(*database_);
  refuse_damage(*database_);
  read(identity);
  database_->run("COMMIT");
}

void Study::read(const std::string& identity) {
  Statement keys(database_->handle, "SELECT key, value FROM study ORDER BY key");
  Statement rows(database_->handle, "SELECT setting, numbers FROM evaluations");
  if (!keys.ready() || !rows.ready()) {
    const int code = sqlite3_errcode(database_->handle);
    if (code == SQLITE_ERROR) database_->fail(ErrorKind::kInput, kNoStudy);  // without these tables
    database_->fail_with(code);
  }
  std::map<std::string, std::string> said;
  int status = keys.step();
  for (; status == SQLITE_ROW; status = keys.step()) said[keys.text(0)] = keys.text(1);
  if (status != SQLITE_DONE) database_->fail_with(status);
  if (said["format"] != kFormat || said["identity"] != identity) {
    database_->fail(ErrorKind::kInput, kOther);
  }
  status = rows.step();
  for (; status == SQLITE_ROW; status = rows.step()) {
    const std::string blob = rows.text(1);
    if (blob.size() != kNumbers * sizeof(double)) {
      database_->fail_damaged("an evaluation of another length");
    }
    std::vector<double> values(kNumbers);
    std::memcpy(values.data(), blob.data(), blob.size());
    if (!are_possible(values)) database_->fail_damaged("an evaluation with impossible numbers");
    database_->known.emplace(rows.text(0), evaluation_of(values));
  }
  if (status != SQLITE_DONE) database_->fail_with(status);
  found_ = database_->known.size();
}

Study::~Study() = default;

std::optional<Evaluation> Study::find(std::uint64_t index) {
  const Setting setting = candidates_->request().space.at(index);
  const auto known = database_->known.find(key_text(setting));
  if (known == database_->known.end()) return std::nullopt;
  Evaluation evaluation = known->second;
  evaluation.infeasible = candidates_->infeasible(setting, evaluation);
  return evaluation;
}

void Study::store(const std::vector<std::pair<std::uint64_t, Evaluation>>& results) {
  database_->run("BEGIN");
  Statement write(database_->handle, "INSERT OR REPLACE INTO evaluations VALUES (?, ?)");
  for (const auto& [index, evaluation] : results) {
    write.bind(1, key_text(candidates_->request().space.at(index)));
    write.bind(2, numbers(evaluation));
    write.finish_row(*database_);
  }
  database_->run("COMMIT");
}

void Study::record(const SearchCounts& counts) {
  std::vector<std::pair<std::string, std::uint64_t>> rows = {
      {"points", counts.points},
      {"simulated", counts.simulated},
      {"equal to one simulated", counts.equal},
      {"excluded by a bound", counts.excluded_by_bound},
      {"infeasible", counts.infeasible},
      {"simulated and infeasible", counts.infeasible_when_simulated},
      {"not reached", counts.not_reached}};
  for (const auto& [why, settings] : counts.reasons)
    rows.emplace_back("infeasible: " + why, settings);
  const bool is_there =
      answer_to(*database_, "SELECT count(*) FROM sqlite_master WHERE name = 'counts'") != "0";
  database_->run("BEGIN; " + (is_there ? "" : create_table(2)) + "DELETE FROM counts");
  Statement write(database_->handle, "INSERT INTO counts VALUES (?, ?)");
  for (const auto& [ending, settings] : rows) {
    write.bind(1, ending);
    write.bind(2, settings);
    write.finish_row(*database_);
  }
  database_->run("COMMIT");
}

}  // namespace zenflow::sim
