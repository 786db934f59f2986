# Recorded runs: importers, analysis, the corpus of public traces.
zenflow_test_group(trace_import_test LABEL unit
  SOURCES unit/chrome_import_test.cpp unit/decimal_time_test.cpp unit/json_stream_test.cpp
          unit/name_table_test.cpp unit/nsight_import_test.cpp unit/own_trace_test.cpp
          unit/pytorch_trace_test.cpp
          unit/span_extras_test.cpp unit/timer_log_test.cpp unit/trace_rules_test.cpp
          unit/trace_steps_test.cpp unit/trace_variants_test.cpp
  LINK zenflow::simulate zenflow::trace_analysis zenflow::recorder GTest::gmock nlohmann_json::nlohmann_json
       SQLite::SQLite3 ZLIB::ZLIB fmt::fmt)
zenflow_test_group(trace_analysis_test LABEL unit
  SOURCES unit/intervals_test.cpp unit/trace_analysis_test.cpp
  LINK zenflow::trace_analysis GTest::gmock nlohmann_json::nlohmann_json fmt::fmt)

zenflow_test_group(long_trace_test LABEL property TIMEOUT 600
  SOURCES property/long_trace_test.cpp
  LINK zenflow::trace_analysis GTest::gmock ZLIB::ZLIB fmt::fmt)

# Skipped, visibly, unless ZENFLOW_TRACE_CORPUS names the folder.
zenflow_test_group(trace_corpus_test LABEL corpus TIMEOUT 600
  SOURCES corpus/trace_corpus_test.cpp
  LINK zenflow::trace_analysis nlohmann_json::nlohmann_json)

zenflow_test_group(trace_cli_test LABEL cli
  SOURCES cli/trace_cli_test.cpp
  LINK GTest::gmock nlohmann_json::nlohmann_json ZLIB::ZLIB)
target_compile_definitions(trace_cli_test PRIVATE ZENFLOW_SIM="$<TARGET_FILE:zenflow-sim>"
                           ZENFLOW_CALIBRATE="$<TARGET_FILE:zenflow-calibrate>")
add_dependencies(trace_cli_test zenflow-sim zenflow-calibrate)

zenflow_test_group(recorded_run_test LABEL cli
  SOURCES cli/recorded_run_test.cpp
  LINK GTest::gmock nlohmann_json::nlohmann_json)
target_compile_definitions(recorded_run_test PRIVATE ZENFLOW_TRAIN="$<TARGET_FILE:zenflow-train>"
                                                     ZENFLOW_SIM="$<TARGET_FILE:zenflow-sim>")
add_dependencies(recorded_run_test zenflow-train zenflow-sim)

zenflow_fuzz(fuzz_chrome_trace LINK zenflow::trace_analysis)
zenflow_fuzz(fuzz_timer_log LINK zenflow::trace_analysis)
zenflow_fuzz(fuzz_nsight LINK zenflow::trace_analysis SQLite::SQLite3)
zenflow_fuzz(fuzz_recorded_run LINK zenflow::trace)
zenflow_fuzz(fuzz_rules LINK zenflow::trace_import)
zenflow_fuzz(fuzz_patterns LINK zenflow::trace_import)
zenflow_fuzz(fuzz_activities LINK zenflow::gpu_trace)

# Not a test: how fast a long trace is read, and how much memory that takes.
add_executable(trace_import_bench EXCLUDE_FROM_ALL bench/trace_import_bench.cpp)
target_include_directories(trace_import_bench PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(trace_import_bench PRIVATE zenflow::trace_import fmt::fmt zenflow::warnings)
