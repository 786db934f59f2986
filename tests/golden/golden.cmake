# cmake -DPROGRAM=... -DSOURCE=... -DSCENARIO=name [-DUPDATE=ON] -P golden.cmake
# Compares `zenflow-sim run --json` of a shipped scenario with tests/golden/SCENARIO.json byte for
# byte, or writes that file. Runs in the source folder, so that no path in a message differs.
set(golden ${SOURCE}/tests/golden/${SCENARIO}.json)
set(ENV{XDG_CONFIG_HOME} ${SOURCE}/tests/golden/no-configuration)
unset(ENV{ZENFLOW_PROFILE})
if(UPDATE)
  set(fresh ${golden}.new)
else()
  set(fresh ${OUTPUT}/${SCENARIO}.json)
  file(MAKE_DIRECTORY ${OUTPUT})
endif()
execute_process(COMMAND ${PROGRAM} run -q --json scenarios/${SCENARIO}.yaml
                WORKING_DIRECTORY ${SOURCE} OUTPUT_FILE ${fresh} RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  file(REMOVE ${fresh})
  message(FATAL_ERROR "zenflow-sim run ${SCENARIO}: exit ${status}")
endif()
if(UPDATE)
  file(RENAME ${fresh} ${golden})
  return()
endif()
if(NOT EXISTS ${golden})
  message(FATAL_ERROR "no ${golden}: build the target update-goldens and review what it wrote")
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${golden} ${fresh}
                RESULT_VARIABLE differs)
if(differs)
  execute_process(COMMAND diff -u ${golden} ${fresh})
  message(FATAL_ERROR "${SCENARIO}: the result changed. If that is meant, build the target "
                      "update-goldens and review the difference")
endif()
