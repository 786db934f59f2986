/// What keeps a database that was made to harm from doing so: SQLite runs what a file's schema
/// says.
#pragma once

struct sqlite3;

namespace zenflow {

/// Most bytes of one value that is read.
inline constexpr int kMostDatabaseValue = 64 << 20;

/// Sets limits, distrusts the schema, and has long statements ask stop_asked: they then end with
/// SQLITE_INTERRUPT. Views, triggers and virtual tables still run where a statement meets them:
/// look for them in sqlite_master before anything else is read (in real tables rootpage is above
/// 0).
void guard_database(sqlite3* database);

}  // namespace zenflow
