# Is the shape of the source tree kept? One test per question. None is about sanitizers.
if(ZENFLOW_SANITIZE)
  return()
endif()
find_program(ZENFLOW_BASH bash REQUIRED)
find_program(ZENFLOW_CLANG_FORMAT NAMES clang-format-14 clang-format)

function(zenflow_lint name)
  add_test(NAME lint/${name} COMMAND ${ARGN})
  set_tests_properties(lint/${name} PROPERTIES LABELS lint TIMEOUT 300 SKIP_RETURN_CODE 77)
endfunction()

set(lint ${CMAKE_CURRENT_SOURCE_DIR}/lint)
zenflow_lint(include_direction ${ZENFLOW_BASH} ${lint}/include_direction.sh ${PROJECT_SOURCE_DIR})
zenflow_lint(no_machine_paths ${ZENFLOW_BASH} ${lint}/no_machine_paths.sh ${PROJECT_SOURCE_DIR})
zenflow_lint(one_launcher ${ZENFLOW_BASH} ${lint}/one_launcher.sh ${PROJECT_SOURCE_DIR})
zenflow_lint(pages_name_files ${ZENFLOW_BASH} ${lint}/pages_name_files.sh ${PROJECT_SOURCE_DIR})
zenflow_lint(planted_violations ${ZENFLOW_BASH} ${lint}/planted_violations.sh)
zenflow_lint(clang_format ${ZENFLOW_BASH} ${lint}/clang_format.sh ${PROJECT_SOURCE_DIR}
             ${ZENFLOW_CLANG_FORMAT})
zenflow_lint(zenflow_sim_is_free_of_cuda ${ZENFLOW_BASH} ${lint}/free_of_cuda.sh
             $<TARGET_FILE:zenflow-sim>)
if(ZENFLOW_HAVE_CUDA)
  zenflow_lint(free_of_cuda_finds_cuda ${ZENFLOW_BASH} ${lint}/free_of_cuda.sh
               $<TARGET_FILE:cuda_check_test>)
  set_tests_properties(lint/free_of_cuda_finds_cuda PROPERTIES WILL_FAIL ON)
endif()

zenflow_lint(fetched_packages ${ZENFLOW_BASH} ${lint}/fetched_packages.sh ${PROJECT_SOURCE_DIR})

# What includes its own header first shows that it compiles alone, unless sources are compiled as one: preset clang.
# Compiles, on one processor, what the build has not shown: long, and therefore first.
if(NOT ZENFLOW_UNITY)
  zenflow_lint(headers_compile_alone ${ZENFLOW_BASH} ${lint}/headers_compile_alone.sh ${PROJECT_BINARY_DIR})
  set_tests_properties(lint/headers_compile_alone PROPERTIES COST 100 TIMEOUT 600)
endif()
