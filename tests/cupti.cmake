# Recording GPUs: on records made by hand, through a CUPTI made by hand. No GPU is needed.
zenflow_test_group(gpu_trace_test LABEL unit
  SOURCES unit/activity_timeline_test.cpp unit/activity_file_test.cpp
  LINK zenflow::gpu_trace zenflow::recorder GTest::gmock nlohmann_json::nlohmann_json fmt::fmt)

# "record" without the rest of zenflow-calibrate, beside the library that it looks for there.
add_executable(record_main support/record_main.cpp)
target_link_libraries(record_main PRIVATE zenflow_record_command CLI11::CLI11 zenflow::warnings)
set_target_properties(record_main PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tools)

zenflow_test_group(record_test LABEL cli
  SOURCES cli/record_test.cpp
  LINK GTest::gmock nlohmann_json::nlohmann_json)
target_compile_definitions(record_test PRIVATE RECORD_MAIN="$<TARGET_FILE:record_main>")
add_dependencies(record_test record_main)

# What recording costs. Is built with the tests, so that it keeps compiling; says so if there is no GPU.
zenflow_test_group(turns_test LABEL unit SOURCES unit/turns_test.cpp LINK zenflow::base GTest::gmock)
if(ZENFLOW_HAVE_CUDA)
  add_executable(zenflow-recorder-bench bench/recorder_overhead_bench.cpp)
  target_include_directories(zenflow-recorder-bench PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(zenflow-recorder-bench PRIVATE zenflow::cupti zenflow::gpu
                        zenflow::kernels_cuda fmt::fmt zenflow::warnings)
endif()

if(ZENFLOW_HAVE_CUDA AND CUDAToolkit_VERSION VERSION_LESS 13)
  message(STATUS "zenflow-sim: the recorder's tests write CUDA 13's records, they are not built")
elseif(ZENFLOW_HAVE_CUDA)
  set(fake ${CMAKE_CURRENT_SOURCE_DIR}/support/fake_cupti.cpp)
  zenflow_test_group(cupti_test LABEL unit
    SOURCES unit/activity_parser_test.cpp unit/buffer_pool_test.cpp unit/cupti_session_test.cpp
            ${fake}
    LINK zenflow::cupti GTest::gmock ${CMAKE_DL_LIBS})
  find_library(ZENFLOW_REAL_CUPTI NAMES libcupti.so.${CUDAToolkit_VERSION_MAJOR}
               PATHS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}/extras/CUPTI/lib64
               NO_DEFAULT_PATH)
  if(ZENFLOW_REAL_CUPTI)
    target_compile_definitions(cupti_test PRIVATE ZENFLOW_REAL_CUPTI="${ZENFLOW_REAL_CUPTI}")
  else()
    message(STATUS "zenflow-sim: no CUPTI library, the tests' own is not compared with it")
  endif()

  # The same CUPTI as a library, and a program that is traced through it. A sanitizer's runtime would
  # have to be in a program that loads an injected library; what is sanitized is tested above.
  if(NOT ZENFLOW_SANITIZE)
    add_library(fake_cupti SHARED ${fake})
    set_target_properties(fake_cupti PROPERTIES OUTPUT_NAME cupti
                          SOVERSION ${CUDAToolkit_VERSION_MAJOR}
                          LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fake_cupti)
    add_library(fake_cuda SHARED support/fake_cuda.cpp)
    set_target_properties(fake_cuda PROPERTIES OUTPUT_NAME cuda SOVERSION 1
                          LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fake_cupti)
    add_executable(traced_program support/traced_program.cpp)
    foreach(target fake_cupti traced_program)
      target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
      target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
      target_link_libraries(${target} PRIVATE zenflow::warnings ${CMAKE_DL_LIBS})
    endforeach()
    target_compile_definitions(record_test PRIVATE
      TRACED_PROGRAM="$<TARGET_FILE:traced_program>"
      FAKE_CUPTI_FOLDER="${CMAKE_CURRENT_BINARY_DIR}/fake_cupti")
    add_dependencies(record_test traced_program fake_cupti fake_cuda)
  endif()
endif()
