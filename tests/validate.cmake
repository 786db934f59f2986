# Predictions held against runs: figures, comparison, zenflow-validate, the accuracy page.
zenflow_test_group(accuracy_test LABEL unit
  SOURCES unit/comparison_test.cpp unit/measured_figures_test.cpp unit/gpu_recording_test.cpp
          unit/validate_limits_test.cpp
  LINK zenflow::validate zenflow::gpu_trace GTest::gmock fmt::fmt)
zenflow_test_group(published_runs_test LABEL unit
  SOURCES unit/published_runs_test.cpp
  LINK zenflow::accuracy GTest::gmock nlohmann_json::nlohmann_json)
zenflow_test_group(validate_cli_test LABEL cli
  SOURCES cli/validate_cli_test.cpp cli/validate_trace_test.cpp
  LINK GTest::gmock nlohmann_json::nlohmann_json)
target_compile_definitions(validate_cli_test PRIVATE ZENFLOW_VALIDATE="$<TARGET_FILE:zenflow-validate>"
                                                     ZENFLOW_SIM="$<TARGET_FILE:zenflow-sim>"
                                                     ZENFLOW_TRAIN="$<TARGET_FILE:zenflow-train>"
                                                     ZENFLOW_CALIBRATE="$<TARGET_FILE:zenflow-calibrate>")
add_dependencies(validate_cli_test zenflow-validate zenflow-sim zenflow-train zenflow-calibrate)

# The page is generated: this fails where it is not what zenflow-validate --write makes of its data.
zenflow_test_group(accuracy_page_test LABEL golden
  SOURCES golden/accuracy_page_test.cpp
  LINK zenflow::accuracy GTest::gmock)
target_include_directories(accuracy_page_test PRIVATE ${PROJECT_BINARY_DIR}/generated)

# How well runs of this machine are predicted: in minutes, on a quiet machine only. Skipped, visibly,
# unless ZENFLOW_LIVE is set; script/bench --validate sets it.
zenflow_test_group(host_device_live_test LABEL live TIMEOUT 3600
  SOURCES live/host_device_live_test.cpp
  LINK GTest::gmock nlohmann_json::nlohmann_json)
target_compile_definitions(host_device_live_test PRIVATE
  ZENFLOW_VALIDATE="$<TARGET_FILE:zenflow-validate>")
add_dependencies(host_device_live_test zenflow-validate)
