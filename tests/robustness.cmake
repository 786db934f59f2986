# Bad inputs of every kind, at every place where a program reads a file: robustness/inputs.py. One test a kind.
find_package(Python3 3.10 COMPONENTS Interpreter)
if(Python3_FOUND AND NOT ZENFLOW_SANITIZE)
  foreach(kind Registered Files ClosedStreams Stack Damage Databases Bombs Sizes ControlCharacters Signals FullDisk)
    add_test(NAME robustness/${kind}
             COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/robustness/robustness_test.py
                     $<TARGET_FILE_DIR:zenflow-sim> ${PROJECT_SOURCE_DIR} ${kind})
    set_tests_properties(robustness/${kind} PROPERTIES LABELS robustness TIMEOUT 600 COST 600
                         PROCESSORS 2)
  endforeach()
endif()
