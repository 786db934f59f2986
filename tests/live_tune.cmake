# Tuning while training: decisions, and the loop closed over a simulated training.
zenflow_test_group(live_tuner_test LABEL unit
  SOURCES unit/live_tuner_test.cpp unit/setting_times_test.cpp
  LINK zenflow::live_tune)
zenflow_test_group(live_ratio_test LABEL unit
  SOURCES unit/live_ratio_test.cpp unit/rank_tuning_test.cpp LINK zenflow::live_tune)
# Held against the best of all settings: minutes under the sanitizers, of which preset asan-quick leaves it out.
zenflow_test_group(live_loop_test LABEL differential TIMEOUT 600
  SOURCES property/live_loop_test.cpp LINK zenflow::live_tune zenflow::report)
zenflow_test(live_tuning_test LABEL unit LINK zenflow::train GTest::gmock nlohmann_json::nlohmann_json)
target_compile_definitions(live_tuning_test PRIVATE ZENFLOW_TRAIN="$<TARGET_FILE:zenflow-train>")
add_dependencies(live_tuning_test zenflow-train)
zenflow_test(train_stop_test LABEL unit LINK zenflow::train)
zenflow_test(event_file_test LABEL unit LINK zenflow::train GTest::gmock)
zenflow_test(checkpoint_counters_test LABEL property LINK zenflow::train GTest::gmock)
foreach(test train_stop_test checkpoint_counters_test)
  target_compile_definitions(${test} PRIVATE ZENFLOW_TRAIN="")  # of a header; neither runs it
endforeach()
zenflow_test_group(train_tune_test LABEL cli
  SOURCES cli/train_tune_test.cpp
  LINK GTest::gmock nlohmann_json::nlohmann_json ZLIB::ZLIB)
target_compile_definitions(train_tune_test PRIVATE ZENFLOW_TRAIN="$<TARGET_FILE:zenflow-train>")
add_dependencies(train_tune_test zenflow-train)

# The same on the emulated GPU, whose kernels are the real ones: whole trainings as far as they differ from the host
# device's, and zenflow-train itself.
if(TARGET emulated_model)
  add_library(emulated_training STATIC emulator/make_cuda_model.cpp)
  target_link_libraries(emulated_training PUBLIC emulated_cuda emulated_model emulated_kernels zenflow::train
                        PRIVATE zenflow::warnings)
  zenflow_test_group(live_tuning_fake_cuda_test LABEL emulator PREFIX fake_cuda_kernels/
    FILTER "*FitsWhatItRecords:*IsNotDisturbed*" TIMEOUT 300 SOURCES unit/live_tuning_test.cpp
    LINK emulated_training GTest::gmock nlohmann_json::nlohmann_json)
  target_compile_definitions(live_tuning_fake_cuda_test PRIVATE ZENFLOW_TRAIN="$<TARGET_FILE:zenflow-train>")

  add_executable(zenflow-train-emulated ${PROJECT_SOURCE_DIR}/tools/zenflow_train.cpp)
  zenflow_main(zenflow-train-emulated train)
  zenflow_compile_quickly(zenflow-train-emulated)
  # The emulator's answers before those of zenflow::gpu.
  target_link_libraries(zenflow-train-emulated PRIVATE emulated_training emulated_cuda zenflow_train_options zenflow::gpu
                        CLI11::CLI11 zenflow::warnings)
  zenflow_test_group(train_tune_cuda_test LABEL emulator TIMEOUT 300
    SOURCES cli/train_tune_cuda_test.cpp
    LINK GTest::gmock nlohmann_json::nlohmann_json ZLIB::ZLIB)
  target_compile_definitions(train_tune_cuda_test PRIVATE ZENFLOW_TRAIN="$<TARGET_FILE:zenflow-train-emulated>")
  add_dependencies(train_tune_cuda_test zenflow-train-emulated)
endif()
find_package(Python3 3.10 COMPONENTS Interpreter)
if(Python3_FOUND AND NOT ZENFLOW_SANITIZE)
  add_test(NAME unit/closed_loop
           COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/closed_loop/closed_loop_test.py
                   ${PROJECT_SOURCE_DIR}/script)
  set_tests_properties(unit/closed_loop PROPERTIES LABELS unit TIMEOUT 300)
endif()
