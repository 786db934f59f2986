# What needs no DeepSpeed of the comparison with DeepSpeed (script/interop runs the rest), no PyTorch
# of script/describe-model, and neither of what Python's package has for training scripts.
zenflow_test_group(micro_steps_test LABEL unit
  SOURCES unit/micro_steps_test.cpp
  LINK zenflow::schedule GTest::gmock fmt::fmt)

find_package(Python3 3.10 COMPONENTS Interpreter)
if(Python3_FOUND AND NOT ZENFLOW_SANITIZE)
  add_test(NAME unit/interop_generator
           COMMAND ${Python3_EXECUTABLE} -B -m unittest -q interop_test
           WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/interop)
  set_tests_properties(unit/interop_generator PROPERTIES LABELS unit TIMEOUT 300)
  add_test(NAME unit/python_integrations
           COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/python/integrations_test.py
                   ${PROJECT_SOURCE_DIR}/tools/python/zenflow)
  set_tests_properties(unit/python_integrations PROPERTIES LABELS unit TIMEOUT 300)
  add_test(NAME unit/describe_model
           COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/describe_model/describe_model_test.py
                   ${PROJECT_SOURCE_DIR}/script)
  set_tests_properties(unit/describe_model PROPERTIES LABELS unit TIMEOUT 300)
endif()
