# The live runtime on the host device: against sequential programs, under delays and faults, with devices and settings
# that are out to break it. cuda_device.cmake has them on the CUDA device.
set(offload_engine_tests property/offload_engine_test.cpp property/offload_async_test.cpp
    property/offload_edges_test.cpp property/offload_windows_test.cpp property/offload_ratio_test.cpp
    property/offload_global_test.cpp)
zenflow_test_group(offload_engine_test LABEL property SOURCES ${offload_engine_tests} LINK zenflow::offload_engine)
zenflow_test_group(offload_model_test LABEL property
  SOURCES property/offload_families_test.cpp property/offload_tuned_test.cpp LINK zenflow::train)
zenflow_test_group(offload_ranks_test LABEL property TIMEOUT 300
  SOURCES property/offload_ranks_test.cpp LINK zenflow::train)
zenflow_test(selection_memory_test LABEL property LINK zenflow::offload_engine)
target_sources(selection_memory_test PRIVATE bench/allocation_meter.cpp)
