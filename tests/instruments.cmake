# What measures and examines the machine: GPU libraries at run time, doctor, probe.

# A library of NVIDIA's that every machine has: it is opened as the real one is.
set(fake_libraries ${CMAKE_CURRENT_BINARY_DIR}/fake_libraries)
add_library(fake_nvml SHARED support/fake_nvml.cpp)
set_target_properties(fake_nvml PROPERTIES PREFIX "" OUTPUT_NAME libnvidia-ml SUFFIX ".so.1"
  LIBRARY_OUTPUT_DIRECTORY ${fake_libraries})
# As a library of C, which does not say to callers what its functions' types are in C++.
target_compile_options(fake_nvml PRIVATE -fno-sanitize=undefined)

zenflow_test_group(gpu_libraries_test LABEL unit
  SOURCES unit/dynamic_library_test.cpp unit/gpu_driver_test.cpp
  LINK zenflow::gpu GTest::gmock)
target_compile_definitions(gpu_libraries_test PRIVATE ZENFLOW_FAKE_LIBRARIES="${fake_libraries}")
add_dependencies(gpu_libraries_test fake_nvml)

zenflow_test_group(doctor_test LABEL unit
  SOURCES unit/core_use_test.cpp unit/machine_facts_test.cpp unit/doctor_test.cpp
  LINK zenflow::doctor GTest::gmock nlohmann_json::nlohmann_json)

zenflow_test_group(this_machine_test LABEL unit
  SOURCES unit/this_machine_test.cpp
  LINK zenflow_job_options GTest::gmock)

zenflow_test_group(calibrate_cli_test LABEL cli TIMEOUT 300
  SOURCES cli/calibrate_cli_test.cpp
  LINK GTest::gmock nlohmann_json::nlohmann_json)
target_compile_definitions(calibrate_cli_test PRIVATE
  ZENFLOW_CALIBRATE="$<TARGET_FILE:zenflow-calibrate>" ZENFLOW_SIM="$<TARGET_FILE:zenflow-sim>"
  ZENFLOW_FAKE_LIBRARIES="${fake_libraries}")
add_dependencies(calibrate_cli_test zenflow-calibrate zenflow-sim fake_nvml)

# Programs that may use a GPU start where no library of CUDA's is. Not a question for sanitizers.
if(NOT ZENFLOW_SANITIZE)
  find_program(ZENFLOW_BASH bash REQUIRED)
  set(starts_without_cuda ${ZENFLOW_BASH} ${CMAKE_CURRENT_SOURCE_DIR}/lint/starts_without_cuda.sh)
  add_test(NAME lint/zenflow_calibrate_starts_without_cuda
           COMMAND ${starts_without_cuda} $<TARGET_FILE:zenflow-calibrate>)
  set_tests_properties(lint/zenflow_calibrate_starts_without_cuda PROPERTIES LABELS lint)
  if(ZENFLOW_HAVE_CUDA)
    # Violation planted to test the check: a program that does need one at start.
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/needs_cupti.cpp "int main() {}\n")
    add_executable(needs_cupti ${CMAKE_CURRENT_BINARY_DIR}/needs_cupti.cpp)
    target_link_libraries(needs_cupti PRIVATE -Wl,--no-as-needed CUDA::cupti)
    add_test(NAME lint/starts_without_cuda_finds_cuda
             COMMAND ${starts_without_cuda} $<TARGET_FILE:needs_cupti>)
    set_tests_properties(lint/starts_without_cuda_finds_cuda PROPERTIES LABELS lint WILL_FAIL ON)
  endif()
endif()

zenflow_test_group(probe_statistics_test LABEL unit
  SOURCES unit/probe_statistics_test.cpp unit/probe_comparison_test.cpp unit/probe_units_test.cpp
  LINK zenflow::probe GTest::gmock)
zenflow_test_group(probe_rehearsal_test LABEL property TIMEOUT 300
  SOURCES property/probe_rehearsal_test.cpp
  LINK zenflow::probe GTest::gmock nlohmann_json::nlohmann_json)
target_compile_definitions(probe_rehearsal_test PRIVATE ZENFLOW_SIM="$<TARGET_FILE:zenflow-sim>")
add_dependencies(probe_rehearsal_test zenflow-sim)

zenflow_test_group(gpu_check_test LABEL cli
  SOURCES cli/gpu_check_test.cpp
  LINK GTest::gmock nlohmann_json::nlohmann_json)
find_package(Python3 3.10 COMPONENTS Interpreter)
if(Python3_FOUND AND NOT ZENFLOW_SANITIZE)
  foreach(test live results training tuned)
    add_test(NAME unit/gpu_check_${test}
             COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/gpu_check/${test}_test.py
                     ${PROJECT_SOURCE_DIR}/script)
    set_tests_properties(unit/gpu_check_${test} PROPERTIES LABELS unit TIMEOUT 300)
  endforeach()
endif()
