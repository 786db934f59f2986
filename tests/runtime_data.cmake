# Data and checkpoints of the runtime, and the files under them.
zenflow_test_group(checkpoint_test LABEL unit
  SOURCES unit/input_file_test.cpp unit/checkpoint_test.cpp unit/checkpoint_directory_test.cpp
  LINK zenflow::checkpoint GTest::gmock)
zenflow_test(checkpoint_damage_test LABEL property LINK zenflow::checkpoint)

# The linker sends these calls to tests/support/failing_system.cpp.
zenflow_test(checkpoint_fault_test LABEL property LINK zenflow::checkpoint GTest::gmock)
target_sources(checkpoint_fault_test PRIVATE support/failing_system.cpp)
foreach(call IN ITEMS open write fsync close rename unlink)
  target_link_options(checkpoint_fault_test PRIVATE LINKER:--wrap=${call})
endforeach()

add_executable(checkpoint_loop support/checkpoint_loop.cpp)
target_include_directories(checkpoint_loop PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(checkpoint_loop PRIVATE zenflow::checkpoint zenflow::warnings)
zenflow_test(checkpoint_kill_test LABEL property LINK zenflow::checkpoint)
target_compile_definitions(checkpoint_kill_test
                           PRIVATE ZENFLOW_CHECKPOINT_LOOP="$<TARGET_FILE:checkpoint_loop>")
add_dependencies(checkpoint_kill_test checkpoint_loop)

zenflow_test_group(data_test LABEL unit
  SOURCES unit/example_sequences_test.cpp unit/token_source_test.cpp unit/glue_reader_test.cpp
          unit/glue_metrics_test.cpp
  LINK zenflow::data GTest::gmock fmt::fmt)
zenflow_test(sample_order_test LABEL property LINK zenflow::data GTest::gmock)

# The toy data set is made, not shipped: four folders by script/toy-glue, for the tests that read
# them (fixture toy_glue).
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(ZENFLOW_TOY_GLUE ${CMAKE_CURRENT_BINARY_DIR}/toy-glue)
foreach(folder IN ITEMS a:1 b:1 c:2)
  string(REPLACE ":" ";" folder ${folder})
  list(GET folder 0 name)
  list(GET folder 1 seed)
  add_test(NAME property/make_toy_glue_${name}
           COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/script/toy-glue
                   ${ZENFLOW_TOY_GLUE}/${name} --seed ${seed} -f)
  set_tests_properties(property/make_toy_glue_${name} PROPERTIES
                       LABELS property TIMEOUT 300 FIXTURES_SETUP toy_glue)
endforeach()
add_test(NAME property/make_toy_glue_noisy
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/script/toy-glue ${ZENFLOW_TOY_GLUE}/noisy
                 --plain 20 --disagreement 15 --train 2000 -f)
set_tests_properties(property/make_toy_glue_noisy PROPERTIES
                     LABELS property TIMEOUT 300 FIXTURES_SETUP toy_glue)
zenflow_test_group(toy_glue_test LABEL property TIMEOUT 300 PROPERTIES FIXTURES_REQUIRED toy_glue
                   SOURCES property/toy_glue_test.cpp LINK zenflow::data)
target_compile_definitions(toy_glue_test PRIVATE ZENFLOW_TOY_GLUE="${ZENFLOW_TOY_GLUE}")

zenflow_fuzz(fuzz_glue LINK zenflow::data)
zenflow_fuzz(fuzz_tokens LINK zenflow::data)
zenflow_fuzz(fuzz_checkpoint LINK zenflow::checkpoint)
