# From a scenario to results: cost models, schedules, metrics, reports and the program itself.

zenflow_test_group(closed_form_test LABEL differential TIMEOUT 300
  SOURCES differential/closed_form_test.cpp
  LINK zenflow::report fmt::fmt)

zenflow_test_group(several_ranks_test LABEL differential TIMEOUT 300
  SOURCES differential/rank_jitter_test.cpp differential/nodes_test.cpp
  LINK zenflow::report GTest::gmock fmt::fmt)

zenflow_test_group(published_test LABEL differential TIMEOUT 300
  SOURCES differential/published_test.cpp
  LINK zenflow::accuracy)

zenflow_test_group(sim_model_test LABEL unit
  SOURCES unit/adapters_test.cpp unit/gpu_cost_test.cpp unit/product_cost_test.cpp unit/transfer_cost_test.cpp unit/cpu_cost_test.cpp unit/selection_cost_test.cpp
          unit/activation_memory_test.cpp unit/ds_config_test.cpp unit/estimator_test.cpp unit/scenario_test.cpp
          unit/job_test.cpp unit/cluster_test.cpp unit/step_plan_test.cpp unit/stage3_gathers_test.cpp
  LINK zenflow::schedule GTest::gmock fmt::fmt)
zenflow_test_group(sim_report_test LABEL unit
  SOURCES unit/metrics_test.cpp unit/simulation_test.cpp unit/sweep_test.cpp unit/explain_test.cpp
          unit/table_test.cpp unit/output_file_test.cpp unit/chrome_trace_test.cpp
          unit/result_json_test.cpp unit/release_test.cpp
  LINK zenflow::report GTest::gmock nlohmann_json::nlohmann_json fmt::fmt ZLIB::ZLIB)
zenflow_test_group(page_test LABEL unit
  SOURCES unit/page_test.cpp
  LINK zenflow::page GTest::gmock nlohmann_json::nlohmann_json fmt::fmt)
zenflow_test_group(schedule_property_test LABEL property
  SOURCES property/schedule_property_test.cpp
  LINK zenflow::report fmt::fmt)

# The program as users meet it.
zenflow_test_group(cli_test LABEL cli
  SOURCES cli/cli_test.cpp
  LINK GTest::gmock nlohmann_json::nlohmann_json ZLIB::ZLIB)
target_compile_definitions(cli_test PRIVATE ZENFLOW_SIM="$<TARGET_FILE:zenflow-sim>")
add_dependencies(cli_test zenflow-sim)
zenflow_test_group(calls_test LABEL unit
  SOURCES unit/calls_test.cpp ${PROJECT_SOURCE_DIR}/tools/python/calls.cpp
  LINK zenflow_command_line GTest::gmock fmt::fmt)
if(NOT ZENFLOW_SANITIZE)
  find_program(ZENFLOW_BASH bash REQUIRED)
  add_test(NAME cli/installed_tree COMMAND ${ZENFLOW_BASH} ${CMAKE_CURRENT_SOURCE_DIR}/cli/installed_tree.sh
           ${PROJECT_BINARY_DIR} ${CMAKE_COMMAND})
  set_tests_properties(cli/installed_tree PROPERTIES LABELS cli TIMEOUT 300)
endif()

# What the shipped scenarios say, byte for byte. After a change that is meant to change numbers:
#   cmake --build ... --target update-goldens
file(GLOB scenarios CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/scenarios/*.yaml)
set(golden_updates)
foreach(scenario IN LISTS scenarios)
  get_filename_component(scenario ${scenario} NAME_WE)
  set(golden ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:zenflow-sim> -DSOURCE=${PROJECT_SOURCE_DIR}
             -DSCENARIO=${scenario} -DOUTPUT=${CMAKE_CURRENT_BINARY_DIR}/golden)
  set(script -P ${CMAKE_CURRENT_SOURCE_DIR}/golden/golden.cmake)
  add_test(NAME golden/${scenario} COMMAND ${golden} ${script})
  set_tests_properties(golden/${scenario} PROPERTIES LABELS golden TIMEOUT 300)
  list(APPEND golden_updates COMMAND ${golden} -DUPDATE=ON ${script})
endforeach()
add_test(NAME golden/readme COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:zenflow-sim>
         -DSOURCE=${PROJECT_SOURCE_DIR} -P ${CMAKE_CURRENT_SOURCE_DIR}/golden/readme.cmake)
set_tests_properties(golden/readme PROPERTIES LABELS golden TIMEOUT 300)
if(NOT ZENFLOW_SANITIZE)
  find_program(ZENFLOW_BASH bash REQUIRED)
  add_test(NAME golden/start_page COMMAND ${ZENFLOW_BASH} ${CMAKE_CURRENT_SOURCE_DIR}/golden/start_page.sh
           ${PROJECT_SOURCE_DIR} $<TARGET_FILE_DIR:zenflow-sim>)
  set_tests_properties(golden/start_page PROPERTIES LABELS golden TIMEOUT 300)
endif()
# docs/scaling.md is what script/scaling makes of its text and today's simulations.
find_package(Python3 3.10 COMPONENTS Interpreter)
if(Python3_FOUND AND NOT ZENFLOW_SANITIZE)
  add_test(NAME golden/scaling_page COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/script/scaling --check
           --simulator $<TARGET_FILE:zenflow-sim>)
  set_tests_properties(golden/scaling_page PROPERTIES LABELS golden TIMEOUT 300)
endif()
add_custom_target(update-goldens ${golden_updates} DEPENDS zenflow-sim VERBATIM)
zenflow_test_group(check_cli_test LABEL cli
  SOURCES cli/check_cli_test.cpp cli/public_files_test.cpp
  LINK GTest::gmock nlohmann_json::nlohmann_json)
target_compile_definitions(check_cli_test PRIVATE ZENFLOW_SIM="$<TARGET_FILE:zenflow-sim>")
add_dependencies(check_cli_test zenflow-sim)
if(NOT ZENFLOW_SANITIZE)  # a slower program says other things in between
  add_test(NAME cli/one_line
           COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/terminal/one_line_test.py
                   $<TARGET_FILE:zenflow-sim>)
  set_tests_properties(cli/one_line PROPERTIES LABELS cli TIMEOUT 300)
endif()
if(ZENFLOW_HAVE_CHARTS)
  zenflow_test_group(page_cli_test LABEL cli
    SOURCES cli/page_cli_test.cpp
    LINK GTest::gmock nlohmann_json::nlohmann_json)
  target_compile_definitions(page_cli_test PRIVATE ZENFLOW_SIM="$<TARGET_FILE:zenflow-sim>"
                                                   ZENFLOW_TUNE="$<TARGET_FILE:zenflow-tune>")
  add_dependencies(page_cli_test zenflow-sim zenflow-tune)
endif()
