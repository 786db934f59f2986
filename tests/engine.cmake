# Graph and engine: tests, cross-checks and benchmarks.
zenflow_test(algorithms_test LABEL unit LINK zenflow::graph Boost::headers GTest::gmock)
zenflow_test_group(engine_test LABEL unit
  SOURCES unit/task_graph_test.cpp unit/fair_share_test.cpp unit/engine_test.cpp
  LINK zenflow::engine GTest::gmock)
zenflow_test(engine_property_test LABEL property LINK zenflow::engine)
zenflow_test(fair_share_bruteforce_test LABEL differential LINK zenflow::engine)

# SimGrid (Debian: libsimgrid-dev) only cross-checks; without it that one test is not built.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(SIMGRID QUIET IMPORTED_TARGET simgrid)
endif()
if(SIMGRID_FOUND)
  zenflow_test(engine_simgrid_test LABEL differential LINK zenflow::engine PkgConfig::SIMGRID)
else()
  message(STATUS "zenflow-sim: no SimGrid (libsimgrid-dev), its cross-check is not built")
endif()

find_package(benchmark 1.7 QUIET)
if(benchmark_FOUND)
  add_subdirectory(bench)
else()
  message(STATUS "zenflow-sim: no Google Benchmark (libbenchmark-dev), zenflow-bench is not built")
endif()
