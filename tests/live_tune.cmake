# Tuning while training: decisions, and the loop closed over a simulated training.
zenflow_test(live_tuner_test LABEL unit LINK zenflow::live_tune)
zenflow_test(live_loop_test LABEL property LINK zenflow::live_tune zenflow::report)
