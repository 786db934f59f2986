/// SQLite files in the shape of `nsys export --type sqlite`, made here: the documented tables, each
/// of which a test may leave out or give fewer columns.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

#include <sqlite3.h>

namespace zenflow::testing {

class NsightFile {
 public:
  explicit NsightFile(const std::filesystem::path& path) {
    if (sqlite3_open(path.c_str(), &handle_) != SQLITE_OK) throw std::runtime_error("sqlite3_open");
  }
  ~NsightFile() { sqlite3_close(handle_); }
  NsightFile(const NsightFile&) = delete;
  NsightFile& operator=(const NsightFile&) = delete;

  void run(const std::string& sql) {
    char* message = nullptr;
    if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, &message) == SQLITE_OK) return;
    const std::string what = message;
    sqlite3_free(message);
    throw std::runtime_error(what + " in " + sql);
  }

  /// The file's content, also of ":memory:".
  [[nodiscard]] std::string bytes() const {
    sqlite3_int64 size = 0;
    unsigned char* image = sqlite3_serialize(handle_, "main", &size, 0);
    std::string copy(reinterpret_cast<const char*>(image), static_cast<std::size_t>(size));
    sqlite3_free(image);
    return copy;
  }

  /// Columns as in exports of schema 3.
  static constexpr const char* kKernels =
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, "
      "deviceId "
      "INTEGER NOT NULL, contextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, "
      "globalPid "
      "INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER)";
  static constexpr const char* kCopies =
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, "
      "deviceId "
      "INTEGER NOT NULL, contextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, "
      "globalPid "
      "INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind "
      "INTEGER)";
  static constexpr const char* kMemsets =
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, "
      "deviceId "
      "INTEGER NOT NULL, contextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, "
      "globalPid "
      "INTEGER, value INTEGER, bytes INTEGER NOT NULL)";
  static constexpr const char* kCalls =
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, "
      "eventClass "
      "INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue "
      "INTEGER)";
  static constexpr const char* kRanges =
      "CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, "
      "text "
      "TEXT, globalTid INTEGER, textId INTEGER)";
  static constexpr const char* kStrings =
      "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)";
  static constexpr const char* kOperations =
      "CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);"
      "INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1,'CUDA_MEMCPY_KIND_HTOD','Host-to-Device'),"
      "(2,'CUDA_MEMCPY_KIND_DTOH','Device-to-Host'),(8,'CUDA_MEMCPY_KIND_DTOD','Device-to-Device')";
  static constexpr const char* kMemories =
      "CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);"
      "INSERT INTO ENUM_CUDA_MEM_KIND VALUES (0,'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE','Pageable'),"
      "(1,'CUDA_MEMOPR_MEMORY_KIND_PINNED','Pinned'),(2,'CUDA_MEMOPR_MEMORY_KIND_DEVICE','Device')";

  /// A process 100 with thread 7: kernels at [1000, 3000) and [6000, 9000) of device 0, a pinned
  /// upload of 4096 bytes at [3000, 5000), a memset at [5000, 5500), their calls, and two steps as
  /// NVTX ranges.
  void fill() {
    for (const char* table :
         {kKernels, kCopies, kMemsets, kCalls, kRanges, kStrings, kOperations, kMemories}) {
      run(table);
    }
    run("INSERT INTO StringIds VALUES (1,'void gemm<float>(float*)'),(2,'gemm'),(3,"
        "'cudaLaunchKernel_v7000'),(4,'cudaMemcpyAsync_v3020'),(5,'step 2'),(6,'cudaGetDevice')");
    const std::string pid = std::to_string(100LL << 24);
    const std::string tid = std::to_string((100LL << 24) + 7);
    run("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000,3000,0,1,7,11," + pid +
        ",1,2,NULL),"
        "(6000,9000,0,1,7,14," +
        pid + ",1,2,NULL)");
    run("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (3000,5000,0,1,8,12," + pid +
        ",4096,1,1,2)");
    run("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (5000,5500,0,1,7,13," + pid + ",0,64)");
    run("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (500,700,0," + tid +
        ",11,3,0),(800,900,0," + tid + ",12,4,0),(5600,5900,0," + tid + ",14,3,0),(100,200,0," +
        tid + ",1,6,0)");
    run("INSERT INTO NVTX_EVENTS VALUES (400,5200,59,'step 1'," + tid +
        ",NULL),(5300,9500,59,NULL," + tid + ",5),(5300,5300,34,'mark'," + tid + ",NULL)");
  }

 private:
  sqlite3* handle_ = nullptr;
};

}  // namespace zenflow::testing
