# From recordings to profiles.
zenflow_test_group(calibrate_test LABEL unit
  SOURCES unit/regression_test.cpp unit/tile_fit_test.cpp unit/contention_test.cpp unit/knobs_test.cpp unit/live_setting_test.cpp
  LINK zenflow::calibrate GTest::gmock fmt::fmt)
zenflow_test_group(live_schedule_test LABEL differential
  SOURCES differential/live_schedule_test.cpp
  LINK zenflow::calibrate zenflow::offload_engine fmt::fmt)
zenflow_test_group(live_ranks_test LABEL differential
  SOURCES differential/live_ranks_test.cpp
  LINK zenflow::simulate zenflow::offload_engine GTest::gmock fmt::fmt)
zenflow_test_group(rank_traces_test LABEL unit
  SOURCES unit/rank_traces_test.cpp
  LINK zenflow::calibrate zenflow::trace_analysis GTest::gmock fmt::fmt)
