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

# zenflow_test_on_fake_cuda(<file> <suffix> <kernels> [<those tests alone>])
function(zenflow_test_on_fake_cuda file suffix kernels)
  get_filename_component(name ${file} NAME_WE)
  set(name ${name}_${suffix})
  zenflow_test_group(${name} LABEL emulator PREFIX ${suffix}/ FILTER "${ARGN}" TIMEOUT 300
                     SOURCES ${file} LINK emulated_cuda ${kernels} zenflow::train GTest::gmock)
endfunction()

foreach(test offload_engine_test offload_async_test offload_edges_test offload_windows_test
        offload_ratio_test offload_global_test offload_families_test offload_tuned_test offload_ranks_test)
  zenflow_test_on_fake_cuda(property/${test}.cpp fake_cuda emulated_host_kernels)
endforeach()
foreach(test cuda_device_test cuda_drift_test cuda_recording_test)
  zenflow_test_on_fake_cuda(unit/${test}.cpp fake_cuda emulated_host_kernels)
endforeach()
zenflow_test_on_fake_cuda(gpu/cuda_device_operations_test.cpp fake_cuda emulated_host_kernels)
zenflow_test_on_fake_cuda(gpu/nccl_communicator_test.cpp fake_cuda emulated_host_kernels)
if(ZENFLOW_HAVE_CUDA)
  zenflow_test(cuda_device_operations_test LABEL gpu LINK zenflow::cuda_runtime)
  zenflow_test(nccl_communicator_test LABEL gpu LINK zenflow::cuda_runtime zenflow::gpu GTest::gmock)
endif()
# With the kernels themselves a step is ten times as long: one seed, and one of the real models.
if(TARGET emulated_kernels)
  zenflow_test_on_fake_cuda(property/offload_engine_test.cpp fake_cuda_kernels emulated_kernels
                            "Seeds/*SameBits/0")
  zenflow_test_on_fake_cuda(property/offload_families_test.cpp fake_cuda_kernels emulated_kernels
                            "*llama_tied")
  zenflow_test_on_fake_cuda(gpu/cuda_device_operations_test.cpp fake_cuda_kernels emulated_kernels)
  zenflow_test_on_fake_cuda(unit/cuda_device_test.cpp fake_cuda_kernels emulated_kernels
                            "CudaDeviceTest.*")
endif()
zenflow_test(memory_plan_test LABEL unit LINK zenflow::train GTest::gmock)
