# From recordings to profiles, and predictions held against runs.
zenflow_test_group(calibrate_test LABEL unit
  SOURCES unit/regression_test.cpp unit/validation_test.cpp
  LINK zenflow::calibrate GTest::gmock fmt::fmt)
zenflow_test_group(live_schedule_test LABEL differential
  SOURCES differential/live_schedule_test.cpp
  LINK zenflow::calibrate zenflow::offload fmt::fmt)
zenflow_test_group(validate_cli_test LABEL cli
  SOURCES cli/validate_cli_test.cpp
  LINK GTest::gmock nlohmann_json::nlohmann_json)
target_compile_definitions(validate_cli_test PRIVATE ZENFLOW_VALIDATE="$<TARGET_FILE:zenflow-validate>"
                                                     ZENFLOW_SIM="$<TARGET_FILE:zenflow-sim>"
                                                     ZENFLOW_TRAIN="$<TARGET_FILE:zenflow-train>"
                                                     ZENFLOW_CALIBRATE="$<TARGET_FILE:zenflow-calibrate>")
add_dependencies(validate_cli_test zenflow-validate zenflow-sim zenflow-train zenflow-calibrate)
