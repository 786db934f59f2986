# zenflow_fuzz(<name> LINK <targets...>): tests/fuzz/<name>.cpp with its seeds in
# tests/fuzz/corpus/<name>/. Every build gets <name>_replay, which runs the seeds and
# deterministic mutations of them; clang with ZENFLOW_FUZZ also gets the libFuzzer <name>.
function(zenflow_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINK")
  set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${name})

  add_executable(${name}_replay fuzz/replay_main.cpp fuzz/${name}.cpp)
  target_include_directories(${name}_replay PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name}_replay PRIVATE ${arg_LINK} zenflow::warnings)
  add_test(NAME fuzz/${name}_replay COMMAND ${name}_replay ${corpus} 3000)
  set_tests_properties(fuzz/${name}_replay PROPERTIES LABELS fuzz TIMEOUT 120)
  zenflow_label(${name}_replay fuzz)

  if(NOT ZENFLOW_FUZZ)
    return()
  endif()
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "ZENFLOW_FUZZ needs clang (libFuzzer), not ${CMAKE_CXX_COMPILER_ID}")
  endif()
  zenflow_fuzzed_targets(links ${arg_LINK})
  add_executable(${name} fuzz/${name}.cpp)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE ${ZENFLOW_FUZZ_FLAGS} -fsanitize=fuzzer-no-link)
  target_link_options(${name} PRIVATE ${ZENFLOW_FUZZ_FLAGS} -fsanitize=fuzzer)
  target_link_libraries(${name} PRIVATE ${links} zenflow::warnings)
  # -seed_inputs only reads; a corpus directory would also be written to.
  file(GLOB seeds CONFIGURE_DEPENDS ${corpus}/*)
  list(JOIN seeds "," seeds)
  add_test(NAME fuzz/${name}
           COMMAND ${name} -runs=20000 -seed=1 -max_len=4096 -timeout=20 -print_final_stats=1
                   -artifact_prefix=${CMAKE_CURRENT_BINARY_DIR}/${name}- -seed_inputs=${seeds})
  set_tests_properties(fuzz/${name} PROPERTIES LABELS fuzz TIMEOUT 300)
endfunction()

set(ZENFLOW_FUZZ_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all
                       -fno-omit-frame-pointer)

# Copies of our static libraries (and of those they link) compiled for libFuzzer, so that the
# tests and programs of the same build stay free of sanitizers.
function(zenflow_fuzzed_targets out)
  set(result)
  foreach(link IN LISTS ARGN)
    if(NOT TARGET ${link})
      list(APPEND result ${link})
      continue()
    endif()
    get_target_property(target ${link} ALIASED_TARGET)
    if(NOT target)
      set(target ${link})
    endif()
    get_target_property(type ${target} TYPE)
    if(NOT target MATCHES "^zenflow_" OR NOT type STREQUAL "STATIC_LIBRARY")
      list(APPEND result ${link})
      continue()
    endif()
    if(NOT TARGET ${target}_fuzzed)
      zenflow_add_fuzzed_copy(${target})
    endif()
    list(APPEND result ${target}_fuzzed)
  endforeach()
  set(${out} ${result} PARENT_SCOPE)
endfunction()

function(zenflow_add_fuzzed_copy target)
  get_target_property(sources ${target} SOURCES)
  get_target_property(directory ${target} SOURCE_DIR)
  get_target_property(links ${target} LINK_LIBRARIES)
  if(NOT links)
    set(links)
  endif()
  set(files)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${directory})
    list(APPEND files ${source})
  endforeach()
  zenflow_fuzzed_targets(fuzzed_links ${links})
  add_library(${target}_fuzzed STATIC EXCLUDE_FROM_ALL ${files})
  target_include_directories(${target}_fuzzed PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_options(${target}_fuzzed PRIVATE ${ZENFLOW_FUZZ_FLAGS} -fsanitize=fuzzer-no-link)
  target_link_libraries(${target}_fuzzed PUBLIC ${fuzzed_links})
endfunction()

zenflow_test(document_test LABEL unit LINK zenflow::config)
zenflow_test(reader_test LABEL unit LINK zenflow::config)
zenflow_test(model_spec_test LABEL unit LINK zenflow::config)
zenflow_test(hub_models_test LABEL unit LINK zenflow::config)
zenflow_test_group(weights_test LABEL unit
  SOURCES unit/weight_check_test.cpp unit/weight_model_test.cpp
  LINK zenflow::memory zenflow::cost GTest::gmock fmt::fmt)

zenflow_fuzz(fuzz_yaml LINK zenflow::config)
zenflow_fuzz(fuzz_json LINK zenflow::config nlohmann_json::nlohmann_json)
zenflow_fuzz(fuzz_model LINK zenflow::config)
