# What measures and examines the machine: GPU libraries at run time, doctor, probe.

# A library of NVIDIA's that every machine has: it is opened as the real one is.
set(fake_libraries ${CMAKE_CURRENT_BINARY_DIR}/fake_libraries)
add_library(fake_nvml SHARED support/fake_nvml.cpp)
set_target_properties(fake_nvml PROPERTIES PREFIX "" OUTPUT_NAME libnvidia-ml SUFFIX ".so.1"
  LIBRARY_OUTPUT_DIRECTORY ${fake_libraries})

zenflow_test_group(gpu_libraries_test LABEL unit
  SOURCES unit/dynamic_library_test.cpp unit/gpu_driver_test.cpp
  LINK zenflow::gpu GTest::gmock)
target_compile_definitions(gpu_libraries_test PRIVATE ZENFLOW_FAKE_LIBRARIES="${fake_libraries}")
add_dependencies(gpu_libraries_test fake_nvml)
