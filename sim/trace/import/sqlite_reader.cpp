#include "sim/trace/import/sqlite_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>

#include "sim/base/database_guard.h"
#include "sim/base/error.h"
#include "sim/base/input_file.h"
#include "sim/base/stop.h"
#include "sim/base/text.h"

namespace zenflow::sim {
struct SqliteRows::Statement {
  sqlite3_stmt* handle = nullptr;
  ~Statement() {
    static_cast<void>(sqlite3_finalize(handle));
  }  // its status repeats that of the last step
};

struct SqliteDatabase::Handle {
  sqlite3* handle = nullptr;
  ~Handle() { static_cast<void>(sqlite3_close(handle)); }  // read-only: nothing can be lost
};

SqliteRows::SqliteRows(std::unique_ptr<Statement> statement, const SqliteDatabase& database,
                       std::string table)
    : statement_(std::move(statement)), database_(&database), table_(std::move(table)) {}
SqliteRows::~SqliteRows() = default;
SqliteRows::SqliteRows(SqliteRows&&) noexcept = default;

bool SqliteRows::next() {
  const int status = sqlite3_step(statement_->handle);
  if (status == SQLITE_ROW) {
    ++number_;
    return true;
  }
  if (status == SQLITE_DONE) return false;
  if (status == SQLITE_INTERRUPT) throw Stopped();
  database_->fail(table_, fmt::format("cannot be read behind row {}: {}", number_,
                                      sqlite3_errmsg(sqlite3_db_handle(statement_->handle))));
}

bool SqliteRows::is_null(int column) const {
  return sqlite3_column_type(statement_->handle, column) == SQLITE_NULL;
}

bool SqliteRows::is_number(int column) const {
  const int type = sqlite3_column_type(statement_->handle, column);
  if (type != SQLITE_FLOAT) return type == SQLITE_INTEGER;
  constexpr double kExact = 0x1p53;
  const double value = sqlite3_column_double(statement_->handle, column);
  return std::trunc(value) == value && std::abs(value) <= kExact;
}

std::int64_t SqliteRows::integer(int column) const {
  return sqlite3_column_int64(statement_->handle, column);
}

std::string_view SqliteRows::text(int column) const {
  const auto* bytes =
      reinterpret_cast<const char*>(sqlite3_column_text(statement_->handle, column));
  if (bytes == nullptr) return {};
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_->handle, column))};
}

SqliteDatabase::SqliteDatabase(const std::filesystem::path& path)
    : name_(path.generic_string()), handle_(std::make_unique<Handle>()) {
  static_cast<void>(InputFile(path));  // what is no file is said as everywhere
  // Immutable: no lock and no journal beside a file that may be in a folder without write
  // permission.
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(path).generic_string()) {
    const bool is_special = c == '?' || c == '#' || c == '%';
    uri += is_special ? fmt::format("%{:02X}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  uri += "?mode=ro&immutable=1";
  constexpr int kFlags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(uri.c_str(), &handle_->handle, kFlags, nullptr) != SQLITE_OK) {
    throw Error(ErrorKind::kInput, fmt::format("{}: cannot be opened as a database: {}", name_,
                                               sqlite3_errmsg(handle_->handle)));
  }
  guard_database(handle_->handle);
  // Views and virtual tables (rootpage 0) are programs: no table is read from them.
  SqliteRows list = query("sqlite_master",
                          "SELECT name, rootpage FROM sqlite_master WHERE type IN ('table','view') "
                          "ORDER BY name");
  constexpr std::size_t kMostTables = 2000;  // exports have dozens
  while (list.next()) {
    const bool is_table = list.is_number(1) && list.integer(1) > 0;
    if (is_table) {
      tables_.emplace_back(list.text(0));
    } else {
      views_.emplace(list.text(0));
    }
    if (tables_.size() + views_.size() > kMostTables) {
      fail("sqlite_master",
           fmt::format("more than {} tables: no export of Nsight Systems", kMostTables));
    }
  }
  for (const std::string& table : tables_) {
    std::set<std::string, std::less<>>& columns = columns_.emplace_back();
    SqliteRows info = query(table, "PRAGMA table_info(" + quoted_by_doubling(table) + ")");
    constexpr int kName = 1;
    while (info.next()) columns.emplace(info.text(kName));
  }
}

SqliteDatabase::~SqliteDatabase() = default;

void SqliteDatabase::fail(const std::string& table, const std::string& what) const {
  throw Error(ErrorKind::kInput, fmt::format("{}: table {}: {}", name_, table, what));
}

bool SqliteDatabase::has_table(std::string_view table) const {
  if (views_.contains(table)) {
    fail(std::string(table),
         "is a view or a virtual table, which may take for ever to read: "
         "expected a table, as Nsight Systems exports it");
  }
  return std::find(tables_.begin(), tables_.end(), table) != tables_.end();
}

bool SqliteDatabase::has_column(std::string_view table, std::string_view column) const {
  const auto at = std::find(tables_.begin(), tables_.end(), table);
  if (at == tables_.end()) return false;
  return columns_[static_cast<std::size_t>(at - tables_.begin())].contains(column);
}

SqliteRows SqliteDatabase::query(const std::string& table, const std::string& sql) const {
  auto statement = std::make_unique<SqliteRows::Statement>();
  if (sqlite3_prepare_v2(handle_->handle, sql.c_str(), -1, &statement->handle, nullptr) !=
      SQLITE_OK) {
    fail(table, fmt::format("cannot be read: {}", sqlite3_errmsg(handle_->handle)));
  }
  return {std::move(statement), *this, table};
}

SqliteRows SqliteDatabase::rows(const std::string& table,
                                const std::vector<std::string>& columns) const {
  std::string sql = "SELECT ";
  for (std::size_t i = 0; i < columns.size(); ++i) {
    sql += (i == 0 ? "" : ", ");
    sql += has_column(table, columns[i]) ? quoted_by_doubling(columns[i]) : "NULL";
  }
  return query(table, sql + " FROM " + quoted_by_doubling(table));
}

std::uint64_t SqliteDatabase::count(const std::string& table) const {
  SqliteRows rows = query(table, "SELECT COUNT(*) FROM " + quoted_by_doubling(table));
  return rows.next() ? static_cast<std::uint64_t>(rows.integer(0)) : 0;
}

}  // namespace zenflow::sim
