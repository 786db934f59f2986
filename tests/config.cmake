# Runs a target on its seeds and mutations of them: compiled once for all targets.
add_library(fuzz_replay_main OBJECT fuzz/replay_main.cpp)
target_link_libraries(fuzz_replay_main PRIVATE zenflow::warnings)

# zenflow_fuzz(<name> LINK <targets...> [MUTATIONS <number>]): tests/fuzz/<name>.cpp with its seeds in
# tests/fuzz/corpus/<name>/. Every build gets <name>_replay, which runs the seeds and
# deterministic mutations of them; clang with ZENFLOW_FUZZ also gets the libFuzzer <name>.
function(zenflow_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "MUTATIONS" "LINK")
  if(NOT arg_MUTATIONS)
    set(arg_MUTATIONS 3000)
  endif()
  set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${name})

  add_executable(${name}_replay fuzz/${name}.cpp)
  target_include_directories(${name}_replay PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${name}_replay PRIVATE ZENFLOW_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name}_replay PRIVATE ${arg_LINK} fuzz_replay_main zenflow::warnings)
  add_test(NAME fuzz/${name}_replay COMMAND ${name}_replay ${corpus} ${arg_MUTATIONS})
  set_tests_properties(fuzz/${name}_replay PROPERTIES LABELS fuzz TIMEOUT 300)
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
  target_compile_definitions(${name} PRIVATE ZENFLOW_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_compile_options(${name} PRIVATE ${ZENFLOW_FUZZ_FLAGS} -fsanitize=fuzzer-no-link)
  target_link_options(${name} PRIVATE ${ZENFLOW_FUZZ_FLAGS} -fsanitize=fuzzer)
  target_link_libraries(${name} PRIVATE ${links} zenflow::warnings)
  # -seed_inputs only reads; a corpus directory would also be written to.
  file(GLOB seeds CONFIGURE_DEPENDS ${corpus}/*)
  list(JOIN seeds "," seeds)
  add_test(NAME fuzz/${name}
           COMMAND ${name} -runs=20000 -seed=1 -max_len=4096 -timeout=60 -print_final_stats=1
                   -artifact_prefix=${CMAKE_CURRENT_BINARY_DIR}/${name}- -seed_inputs=${seeds})
  set_tests_properties(fuzz/${name} PROPERTIES LABELS fuzz TIMEOUT 300)
endfunction()

# -O1: optimising more takes longer to compile than the fuzzer gains by it.
set(ZENFLOW_FUZZ_FLAGS -O1 -fno-omit-frame-pointer)
if(ZENFLOW_FUZZ_SANITIZE)
  list(APPEND ZENFLOW_FUZZ_FLAGS -fsanitize=${ZENFLOW_FUZZ_SANITIZE} -fno-sanitize-recover=all)
endif()

# Copies of our static libraries (and of those they link) compiled for libFuzzer, so that the
# tests and programs of the same build stay free of sanitizers. Their sources are compiled as one, with any preset:
# what a source forgot to include shows where the libraries themselves are compiled.
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
  set(alone)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${directory})
    get_source_file_property(is_alone ${source} TARGET_DIRECTORY ${target} SKIP_UNITY_BUILD_INCLUSION)
    list(APPEND files ${source})
    if(is_alone)
      list(APPEND alone ${source})
    endif()
  endforeach()
  zenflow_fuzzed_targets(fuzzed_links ${links})
  add_library(${target}_fuzzed STATIC EXCLUDE_FROM_ALL ${files})
  get_target_property(batch ${target} UNITY_BUILD_BATCH_SIZE)
  if(batch STREQUAL 0)  # zenflow_join_sources
    set_target_properties(${target}_fuzzed PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
    set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  target_include_directories(${target}_fuzzed PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
  target_compile_options(${target}_fuzzed PRIVATE ${ZENFLOW_FUZZ_FLAGS} -fsanitize=fuzzer-no-link)
  target_link_libraries(${target}_fuzzed PUBLIC ${fuzzed_links})
endfunction()

zenflow_test(document_test LABEL unit LINK zenflow::config GTest::gmock)
zenflow_test(reader_test LABEL unit LINK zenflow::config)
zenflow_test(model_spec_test LABEL unit LINK zenflow::config)
zenflow_test(hub_models_test LABEL unit LINK zenflow::config)
zenflow_test_group(weights_test LABEL unit
  SOURCES unit/weight_check_test.cpp unit/weight_model_test.cpp
  LINK zenflow::memory zenflow::cost GTest::gmock fmt::fmt)

zenflow_fuzz(fuzz_yaml LINK zenflow::config)
zenflow_fuzz(fuzz_json LINK zenflow::config nlohmann_json::nlohmann_json)
zenflow_fuzz(fuzz_model LINK zenflow::config)
zenflow_fuzz(fuzz_weights LINK zenflow::config)
zenflow_fuzz(fuzz_safetensors LINK zenflow::config)
zenflow_fuzz(fuzz_adapter LINK zenflow::config)
zenflow_fuzz(fuzz_profile LINK zenflow::config)
# A job's own files, and the names of cards and models.
zenflow_test_group(job_files_test LABEL unit
  SOURCES unit/job_names_test.cpp unit/training_file_test.cpp unit/given_deepspeed_test.cpp
  LINK zenflow::job_files GTest::gmock)
