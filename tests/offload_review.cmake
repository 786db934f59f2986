# The offload engine against devices and settings that are out to break it.
zenflow_test(offload_async_test LABEL property LINK zenflow::offload_engine)
zenflow_test(offload_edges_test LABEL property LINK zenflow::offload_engine)
zenflow_test(offload_windows_test LABEL property LINK zenflow::offload_engine)
zenflow_test(offload_ratio_test LABEL property LINK zenflow::offload_engine)
zenflow_test(offload_global_test LABEL property LINK zenflow::offload_engine)
zenflow_test(selection_memory_test LABEL property LINK zenflow::offload_engine)
target_sources(selection_memory_test PRIVATE bench/allocation_meter.cpp)
zenflow_test(offload_families_test LABEL property LINK zenflow::train)
zenflow_test_group(offload_ranks_test LABEL property TIMEOUT 300
  SOURCES property/offload_ranks_test.cpp LINK zenflow::train)
zenflow_test(offload_tuned_test LABEL property LINK zenflow::train)
# How ranks find each other and their places.
zenflow_test_group(rank_start_test LABEL unit
  SOURCES unit/rank_launch_test.cpp unit/rank_place_test.cpp unit/tcp_communicator_test.cpp
  LINK zenflow::train GTest::gmock)
