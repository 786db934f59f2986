# The CUDA device, and the offload engine on it, on the emulator's asynchronous streams: the tests
# of the engine on the host device, a second time and a third. They need no CUDA. Under the thread
# sanitizer there are no fibers, and so no kernels: there only the second time.
add_library(emulated_cuda STATIC emulator/ask_driver.cpp emulator/nccl.cpp
            ${PROJECT_SOURCE_DIR}/runtime/cuda/cuda_device.cpp
            ${PROJECT_SOURCE_DIR}/runtime/cuda/cuda_events.cpp
            ${PROJECT_SOURCE_DIR}/runtime/cuda/cuda_handles.cpp
            ${PROJECT_SOURCE_DIR}/runtime/cuda/cuda_memory.cpp
            ${PROJECT_SOURCE_DIR}/runtime/cuda/cuda_stream.cpp
            ${PROJECT_SOURCE_DIR}/runtime/cuda/device_clock.cpp
            ${PROJECT_SOURCE_DIR}/runtime/cuda/nccl_communicator.cpp
            ${PROJECT_SOURCE_DIR}/runtime/cuda/stream_clock.cpp)
target_compile_definitions(emulated_cuda PUBLIC ZENFLOW_FAKE_CUDA)
target_link_libraries(emulated_cuda PUBLIC emulated_runtime zenflow::offload_engine zenflow::gpu
                      PRIVATE fmt::fmt zenflow::warnings)

# The kernels' host functions with the arithmetic of the scalar references.
add_library(emulated_host_kernels STATIC emulator/host_kernels.cpp
            ${PROJECT_SOURCE_DIR}/kernels/cuda/cuda_check.cpp)
target_link_libraries(emulated_host_kernels PUBLIC emulated_runtime zenflow::kernels
                      PRIVATE fmt::fmt zenflow::warnings)

# zenflow_test_on_fake_cuda(<name> <suffix> <kernels> <sources> [FILTER <those tests alone>])
function(zenflow_test_on_fake_cuda name suffix kernels sources)
  cmake_parse_arguments(PARSE_ARGV 4 arg "" "FILTER" "")
  zenflow_test_group(${name}_${suffix} LABEL emulator PREFIX ${suffix}/ FILTER "${arg_FILTER}" TIMEOUT 300
                     SOURCES ${sources} LINK emulated_cuda ${kernels} zenflow::train GTest::gmock)
endfunction()

zenflow_test_on_fake_cuda(offload_engine_test fake_cuda emulated_host_kernels "${offload_engine_tests}")
foreach(test offload_families_test offload_tuned_test offload_ranks_test)
  zenflow_test_on_fake_cuda(${test} fake_cuda emulated_host_kernels property/${test}.cpp)
endforeach()
zenflow_test_on_fake_cuda(cuda_device_test fake_cuda emulated_host_kernels
                          "unit/cuda_device_test.cpp;gpu/cuda_device_operations_test.cpp")
foreach(test unit/cuda_drift_test unit/cuda_recording_test gpu/nccl_communicator_test)
  get_filename_component(name ${test} NAME)
  zenflow_test_on_fake_cuda(${name} fake_cuda emulated_host_kernels ${test}.cpp)
endforeach()
if(ZENFLOW_HAVE_CUDA)
  zenflow_test(cuda_device_operations_test LABEL gpu LINK zenflow::cuda_runtime)
  zenflow_test(nccl_communicator_test LABEL gpu LINK zenflow::cuda_runtime zenflow::gpu GTest::gmock)
endif()
# With the kernels themselves a step is ten times as long: one seed, and one of the real models. Objects are those
# above.
if(TARGET emulated_kernels)
  foreach(test offload_engine_test:Seeds/OffloadEngineAgainstSequential.*SameBits/0 offload_families_test:*llama_tied
          cuda_device_test:CudaDeviceTest.*:CudaDeviceOperations*)
    string(REGEX MATCH "^([^:]*):(.*)$" test ${test})
    set(name ${CMAKE_MATCH_1})
    zenflow_test_on_fake_cuda(${name} fake_cuda_kernels emulated_kernels $<TARGET_OBJECTS:${name}_fake_cuda>
                              FILTER ${CMAKE_MATCH_2})
    set_target_properties(${name}_fake_cuda_kernels PROPERTIES LINKER_LANGUAGE CXX)
  endforeach()
endif()
