# Whether the outputs that README.md shows are what the program prints. -DPROGRAM= -DSOURCE=
file(READ ${SOURCE}/README.md readme)
foreach(arguments "run;scenarios/llama2_7b_4xa100.yaml"
                  "explain;scenarios/llama2_7b_4xa100.yaml;--schedule;zenflow"
                  "fit;scenarios/llama2_7b_2xh100.yaml;--schedule;deepspeed-zenflow")
  execute_process(COMMAND ${PROGRAM} ${arguments} WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE output
                  COMMAND_ERROR_IS_FATAL ANY)
  string(STRIP "${output}" output)
  list(GET arguments 0 command)
  if(command STREQUAL "explain")
    # README leaves out the heading and the empty line after it.
    string(FIND "${output}" "\n" end)
    math(EXPR begin "${end} + 2")
    string(SUBSTRING "${output}" ${begin} -1 output)
  endif()
  if(command STREQUAL "fit")
    # README shows the host's buffers and the limits.
    string(FIND "${output}" "  host, node" begin)
    string(FIND "${output}" "\n\n  /dev/shm: " end)
    math(EXPR length "${end} - ${begin}")
    string(SUBSTRING "${output}" ${begin} ${length} output)
  endif()
  string(FIND "${readme}" "${output}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "README.md does not show what '${arguments}' prints:\n${output}")
  endif()
endforeach()
