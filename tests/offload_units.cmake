# The offload engine's parts, and the runtime's arithmetic, with numbers worked by hand.
zenflow_test_group(offload_parts_test LABEL unit
  SOURCES unit/offload_parts_test.cpp unit/clock_test.cpp unit/host_device_test.cpp unit/link_pacer_test.cpp
          unit/offload_threads_test.cpp
  LINK zenflow::offload_engine)
zenflow_test(global_selection_test LABEL unit LINK zenflow::offload_engine)
zenflow_test(offload_rule_test LABEL unit LINK zenflow::offload GTest::gmock)
zenflow_test_group(train_numbers_test LABEL unit
  SOURCES unit/interval_controller_test.cpp unit/train_numbers_test.cpp unit/memory_plan_test.cpp
  LINK zenflow::train GTest::gmock)
