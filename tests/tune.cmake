# zenflow-tune: the search, its bounds, what it writes, the program.
zenflow_test_group(tune_test LABEL unit
  SOURCES unit/tune_space_test.cpp unit/base_text_test.cpp unit/tune_sensitivity_test.cpp
  LINK zenflow::tune zenflow::calibrate GTest::gmock fmt::fmt)
zenflow_test_group(tune_bounds_test LABEL property TIMEOUT 600
  SOURCES property/tune_bounds_test.cpp property/base_text_property_test.cpp
  LINK zenflow::tune nlohmann_json::nlohmann_json fmt::fmt)
zenflow_test_group(tune_search_test LABEL differential TIMEOUT 1200 SHARED Spaces/TuneSearch
  SOURCES differential/tune_search_test.cpp
  LINK zenflow::tune GTest::gmock fmt::fmt)
zenflow_test_group(memory_agreement_test LABEL differential TIMEOUT 300
  SOURCES differential/memory_agreement_test.cpp
  LINK zenflow::tune GTest::gmock fmt::fmt)
zenflow_test_group(tune_cli_test LABEL cli TIMEOUT 300
  SOURCES cli/tune_cli_test.cpp cli/tune_summary_test.cpp
  LINK GTest::gmock nlohmann_json::nlohmann_json SQLite::SQLite3)
target_compile_definitions(tune_cli_test PRIVATE ZENFLOW_TUNE="$<TARGET_FILE:zenflow-tune>"
                           ZENFLOW_SIM="$<TARGET_FILE:zenflow-sim>")
add_dependencies(tune_cli_test zenflow-tune zenflow-sim)
# From recordings of a job to its tuned configuration.
zenflow_test_group(traced_job_test LABEL unit
  SOURCES unit/traced_job_test.cpp
  LINK zenflow::trace_fit GTest::gmock ZLIB::ZLIB fmt::fmt)
zenflow_test_group(tune_trace_test LABEL cli TIMEOUT 300
  SOURCES cli/tune_trace_test.cpp
  LINK zenflow::trace_import GTest::gmock nlohmann_json::nlohmann_json ZLIB::ZLIB
       SQLite::SQLite3 fmt::fmt)
target_compile_definitions(tune_trace_test PRIVATE ZENFLOW_TUNE="$<TARGET_FILE:zenflow-tune>"
                           ZENFLOW_SIM="$<TARGET_FILE:zenflow-sim>"
                           ZENFLOW_TRAIN="$<TARGET_FILE:zenflow-train>")
add_dependencies(tune_trace_test zenflow-tune zenflow-sim zenflow-train)
find_package(Python3 3.10 COMPONENTS Interpreter)
if(Python3_FOUND AND NOT ZENFLOW_SANITIZE)
  add_test(NAME cli/tuned_step
           COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/tuned_step/tuned_step_test.py
                   ${PROJECT_SOURCE_DIR}/script $<TARGET_FILE:zenflow-train> $<TARGET_FILE:zenflow-tune>)
  set_tests_properties(cli/tuned_step PROPERTIES LABELS cli TIMEOUT 300)
endif()
