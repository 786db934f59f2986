# The offload engine's parts, and the runtime's arithmetic, with numbers worked by hand.
zenflow_test(offload_parts_test LABEL unit LINK zenflow::offload_engine)
zenflow_test(offload_rule_test LABEL unit LINK zenflow::offload GTest::gmock)
zenflow_test(clock_test LABEL unit LINK zenflow::recorder)
zenflow_test(host_device_test LABEL unit LINK zenflow::device)
zenflow_test(link_pacer_test LABEL unit LINK zenflow::device)
zenflow_test(offload_threads_test LABEL unit LINK zenflow::offload_engine)
zenflow_test(interval_controller_test LABEL unit LINK zenflow::train)
zenflow_test(train_numbers_test LABEL unit LINK zenflow::train)
