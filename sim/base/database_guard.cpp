#include "sim/base/database_guard.h"

#include <sqlite3.h>

#include "sim/base/stop.h"

namespace zenflow {

void guard_database(sqlite3* database) {
  // After https://www.sqlite.org/security.html, as far as real files leave room for it.
  constexpr struct {
    int what;
    int most;
  } kLimits[] = {
      {SQLITE_LIMIT_LENGTH, kMostDatabaseValue},
      {SQLITE_LIMIT_SQL_LENGTH, 1 << 20},
      {SQLITE_LIMIT_COLUMN, 500},
      {SQLITE_LIMIT_EXPR_DEPTH, 50},
      {SQLITE_LIMIT_COMPOUND_SELECT, 3},
      {SQLITE_LIMIT_VDBE_OP, 25'000},
      {SQLITE_LIMIT_FUNCTION_ARG, 8},
      {SQLITE_LIMIT_ATTACHED, 0},
      {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50},
      {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
      {SQLITE_LIMIT_WORKER_THREADS, 0},
  };
  for (const auto& [what, most] : kLimits) static_cast<void>(sqlite3_limit(database, what, most));
  // 3.40 takes both.
  static_cast<void>(sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr));
  static_cast<void>(sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr));
  constexpr int kEvery = 10'000;  // instructions: less than a millisecond
  sqlite3_progress_handler(
      database, kEvery, [](void*) { return stop_asked() ? 1 : 0; }, nullptr);
}

}  // namespace zenflow
