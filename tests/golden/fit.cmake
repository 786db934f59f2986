# cmake -DPROGRAM=... -DSOURCE=... -DSCENARIO=name -DOUTPUT=... [-DUPDATE=ON] -P fit.cmake
# Compares `zenflow-sim fit` of a shipped scenario, as text and as JSON, with tests/golden/fit/ byte
# for byte, or writes those files. Exit 3, "does not fit", is an answer too.
set(ENV{XDG_CONFIG_HOME} ${SOURCE}/tests/golden/no-configuration)
unset(ENV{ZENFLOW_PROFILE})
foreach(form txt json)
  set(golden ${SOURCE}/tests/golden/fit/${SCENARIO}.${form})
  set(fresh ${OUTPUT}/${SCENARIO}.${form})
  file(MAKE_DIRECTORY ${OUTPUT})
  set(option --over-time)
  if(form STREQUAL "json")
    set(option --json)
  endif()
  execute_process(COMMAND ${PROGRAM} fit -q ${option} scenarios/${SCENARIO}.yaml
                  WORKING_DIRECTORY ${SOURCE} OUTPUT_FILE ${fresh} RESULT_VARIABLE status)
  if(NOT status EQUAL 0 AND NOT status EQUAL 3)
    message(FATAL_ERROR "zenflow-sim fit ${SCENARIO}: exit ${status}")
  endif()
  if(UPDATE)
    file(COPY_FILE ${fresh} ${golden})
    continue()
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${golden} ${fresh}
                  RESULT_VARIABLE differs)
  if(differs)
    execute_process(COMMAND diff -u ${golden} ${fresh})
    message(FATAL_ERROR "fit of ${SCENARIO} changed. If that is meant, build the target "
                        "update-goldens and review the difference")
  endif()
endforeach()
