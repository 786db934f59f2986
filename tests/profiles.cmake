zenflow_test(hardware_profile_test LABEL unit LINK zenflow::config)
