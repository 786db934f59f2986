# Data and checkpoints of the runtime, and the files under them.
zenflow_test(input_file_test LABEL unit LINK zenflow::base GTest::gmock)
zenflow_test(checkpoint_test LABEL unit LINK zenflow::checkpoint GTest::gmock)
zenflow_test(checkpoint_directory_test LABEL unit LINK zenflow::checkpoint GTest::gmock)
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
