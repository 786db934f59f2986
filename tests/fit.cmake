# What fits: buffers by name, their formulas, the limits of the machine, `zenflow-sim fit`.
zenflow_test_group(fit_test LABEL unit
  SOURCES unit/buffers_test.cpp unit/fit_test.cpp unit/deepspeed_memory_test.cpp
          unit/deepspeed_zero_test.cpp unit/user_cases_test.cpp
  LINK zenflow::report GTest::gmock fmt::fmt)
zenflow_test_group(fit_formula_test LABEL differential TIMEOUT 300
  SOURCES differential/fit_formula_test.cpp
  LINK zenflow::report fmt::fmt)

set(fit_updates)
foreach(scenario llama2_7b_2xh100 llama2_70b_8xh100 llama2_7b_4xa100 mistral_7b_1xrtx4090)
  set(golden ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:zenflow-sim> -DSOURCE=${PROJECT_SOURCE_DIR}
             -DSCENARIO=${scenario} -DOUTPUT=${CMAKE_CURRENT_BINARY_DIR}/golden/fit)
  set(script -P ${CMAKE_CURRENT_SOURCE_DIR}/golden/fit.cmake)
  add_test(NAME golden/fit_${scenario} COMMAND ${golden} ${script})
  set_tests_properties(golden/fit_${scenario} PROPERTIES LABELS golden TIMEOUT 300)
  list(APPEND fit_updates COMMAND ${golden} -DUPDATE=ON ${script})
endforeach()
add_custom_target(update-fit-goldens ${fit_updates} DEPENDS zenflow-sim VERBATIM)
add_dependencies(update-goldens update-fit-goldens)
