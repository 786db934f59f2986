/// A SQLite database that is only read, by tables and columns that may not be there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace zenflow::sim {

class SqliteDatabase;

/// The rows of one query.
class SqliteRows {
 public:
  ~SqliteRows();
  SqliteRows(SqliteRows&&) noexcept;
  SqliteRows& operator=(SqliteRows&&) = delete;

  /// Throws Error(kInput) with the table's name if the database is damaged here.
  [[nodiscard]] bool next();
  [[nodiscard]] bool is_null(int column) const;
  /// A whole number. Tools that copy tables make such columns REAL: those count, too, up to 2^53.
  [[nodiscard]] bool is_number(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  /// Valid until `next`.
  [[nodiscard]] std::string_view text(int column) const;
  /// Counted from 1.
  [[nodiscard]] std::uint64_t number() const { return number_; }

 private:
  friend class SqliteDatabase;
  struct Statement;
  SqliteRows(std::unique_ptr<Statement> statement, const SqliteDatabase& database,
             std::string table);

  std::unique_ptr<Statement> statement_;
  const SqliteDatabase* database_;
  std::string table_;
  std::uint64_t number_ = 0;
};

class SqliteDatabase {
 public:
  /// Throws Error(kInput) if it is no database or is damaged at its beginning.
  explicit SqliteDatabase(const std::filesystem::path& path);
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  /// Throws Error(kInput) if it is a view or a virtual table: what it has is what SQL in the file
  /// says, without end if it wants to.
  [[nodiscard]] bool has_table(std::string_view table) const;
  [[nodiscard]] bool has_column(std::string_view table, std::string_view column) const;
  /// By name.
  [[nodiscard]] const std::vector<std::string>& tables() const { return tables_; }

  /// Columns of all rows of a table, in the order in which they were stored; NULL for a column that
  /// the table does not have. Precondition: has_table(table).
  [[nodiscard]] SqliteRows rows(const std::string& table,
                                const std::vector<std::string>& columns) const;
  [[nodiscard]] std::uint64_t count(const std::string& table) const;

  /// Throws Error(kInput): "FILE: table TABLE: what".
  [[noreturn]] void fail(const std::string& table, const std::string& what) const;

 private:
  struct Handle;
  [[nodiscard]] SqliteRows query(const std::string& table, const std::string& sql) const;

  std::string name_;
  std::unique_ptr<Handle> handle_;
  std::vector<std::string> tables_;
  std::vector<std::set<std::string, std::less<>>> columns_;  // by table
  std::set<std::string, std::less<>> views_;                 // and virtual tables
};

}  // namespace zenflow::sim
