# Profiles from traces of any program.
zenflow_test_group(trace_fit_test LABEL unit
  SOURCES unit/constant_fit_test.cpp unit/recorded_fit_test.cpp unit/operation_shapes_test.cpp
  LINK zenflow::trace_fit GTest::gmock nlohmann_json::nlohmann_json SQLite::SQLite3 ZLIB::ZLIB
       fmt::fmt)
zenflow_test_group(simulated_fit_test LABEL differential TIMEOUT 300
  SOURCES differential/simulated_fit_test.cpp
  LINK zenflow::trace_fit nlohmann_json::nlohmann_json ZLIB::ZLIB fmt::fmt)
