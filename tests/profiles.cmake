zenflow_test(hardware_profile_test LABEL unit LINK zenflow::config)
zenflow_test(hardware_parts_test LABEL unit LINK zenflow::config GTest::gmock)
