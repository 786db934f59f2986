# Tuning while training: decisions, and the loop closed over a simulated training.
zenflow_test(live_tuner_test LABEL unit LINK zenflow::live_tune)
zenflow_test(live_ratio_test LABEL unit LINK zenflow::live_tune)
# Held against the best of all settings: minutes under the sanitizers, of which preset asan-quick leaves it out.
zenflow_test_group(live_loop_test LABEL differential TIMEOUT 600
  SOURCES property/live_loop_test.cpp LINK zenflow::live_tune zenflow::report)
zenflow_test(live_tuning_test LABEL unit LINK zenflow::train GTest::gmock nlohmann_json::nlohmann_json)
target_compile_definitions(live_tuning_test PRIVATE ZENFLOW_TRAIN="$<TARGET_FILE:zenflow-train>")
add_dependencies(live_tuning_test zenflow-train)
zenflow_test_group(train_tune_test LABEL cli
  SOURCES cli/train_tune_test.cpp
  LINK GTest::gmock nlohmann_json::nlohmann_json ZLIB::ZLIB)
target_compile_definitions(train_tune_test PRIVATE ZENFLOW_TRAIN="$<TARGET_FILE:zenflow-train>")
add_dependencies(train_tune_test zenflow-train)
