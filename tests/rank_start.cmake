# How ranks find each other and their places.
zenflow_test_group(rank_start_test LABEL unit
  SOURCES unit/rank_launch_test.cpp unit/rank_place_test.cpp unit/tcp_communicator_test.cpp
  LINK zenflow::train GTest::gmock)
