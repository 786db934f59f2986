# zenflow-train as its users, and those who pull the plug, meet it.
zenflow_test_group(train_cli_test LABEL cli
  SOURCES cli/train_cli_test.cpp cli/train_files_test.cpp cli/train_result_test.cpp
          cli/train_resume_test.cpp
  LINK GTest::gmock nlohmann_json::nlohmann_json ZLIB::ZLIB)
target_compile_definitions(train_cli_test PRIVATE ZENFLOW_TRAIN="$<TARGET_FILE:zenflow-train>"
                                                  ZENFLOW_SIM="$<TARGET_FILE:zenflow-sim>")
add_dependencies(train_cli_test zenflow-train zenflow-sim)
if(TARGET zenflow::mpi AND MPIEXEC_EXECUTABLE)
  # zenflow-train that breaks where a test wants it to.
  add_executable(zenflow-train-failing ${PROJECT_SOURCE_DIR}/tools/zenflow_train.cpp support/failing_rank.cpp)
  zenflow_main(zenflow-train-failing train)
  zenflow_compile_quickly(zenflow-train-failing)
  target_link_libraries(zenflow-train-failing PRIVATE zenflow_train_options zenflow::gpu zenflow::mpi
                        CLI11::CLI11 fmt::fmt zenflow::warnings)
  target_compile_definitions(zenflow-train-failing PRIVATE ZENFLOW_HAVE_MPI)
  foreach(call IN ITEMS fsync rename
      _ZN7zenflow7runtime15HostTransformer7forwardEmSt4spanIKPKvLm18446744073709551615EE
      _ZN7zenflow7runtime15HostTransformer8backwardEmSt4spanIKPKvLm18446744073709551615EES2_IKPvLm18446744073709551615EE
      _ZN7zenflow7kernels5adamwIffffEEvRKNS0_13AdamWSettingsENS0_14BiasCorrectionEfmNS0_10AdamWStateIT_T0_EEPKT1_PT2_NS0_3IsaE)
    target_link_options(zenflow-train-failing PRIVATE LINKER:--wrap=${call})
  endforeach()
  zenflow_test_group(train_ranks_test LABEL cli
    SOURCES cli/train_ranks_test.cpp cli/train_rank_faults_test.cpp
    LINK GTest::gmock nlohmann_json::nlohmann_json)
  target_compile_definitions(train_ranks_test PRIVATE ZENFLOW_TRAIN="$<TARGET_FILE:zenflow-train>"
                                                      ZENFLOW_SIM="$<TARGET_FILE:zenflow-sim>"
                                                      ZENFLOW_CALIBRATE="$<TARGET_FILE:zenflow-calibrate>"
                                                      ZENFLOW_TRAIN_FAILING="$<TARGET_FILE:zenflow-train-failing>"
                                                      ZENFLOW_MPIRUN="${MPIEXEC_EXECUTABLE}")
  add_dependencies(train_ranks_test zenflow-train zenflow-train-failing zenflow-sim zenflow-calibrate)
endif()
zenflow_test_group(train_launch_test LABEL cli
  SOURCES cli/train_launch_test.cpp
  LINK zenflow::comm GTest::gmock nlohmann_json::nlohmann_json)
target_compile_definitions(train_launch_test PRIVATE ZENFLOW_TRAIN="$<TARGET_FILE:zenflow-train>")
add_dependencies(train_launch_test zenflow-train)
if(NOT ZENFLOW_SANITIZE)
  add_test(NAME cli/tokenize
           COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/tokens/tokens_test.py
                   ${PROJECT_SOURCE_DIR} $<TARGET_FILE:zenflow-train>)
  add_test(NAME cli/progress
           COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/terminal/progress_test.py
                   $<TARGET_FILE:zenflow-train>)
  set_tests_properties(cli/tokenize cli/progress PROPERTIES LABELS cli TIMEOUT 300)
endif()
# What a new row of the setup's table brings, its flag included.
zenflow_test_group(added_knob_test LABEL unit
  SOURCES unit/added_knob_test.cpp
  LINK zenflow_train_options zenflow::deepspeed CLI11::CLI11 GTest::gmock fmt::fmt)
