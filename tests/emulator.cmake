# CUDA kernels. Their tests (gpu/) are built twice: against CUDA, to run on a GPU, and against an
# emulator of CUDA on the host (emulator/), to run everywhere, with the sanitizers too.
set(cuda_kernel_tests adamw_cuda_test column_norm_cuda_test columns_cuda_test elementwise_cuda_test
    square_sum_cuda_test top_k_cuda_test)

if(ZENFLOW_HAVE_CUDA)
  zenflow_test(cuda_check_test LABEL unit LINK zenflow::kernels_cuda GTest::gmock)
  foreach(test ${cuda_kernel_tests})
    zenflow_test(${test} LABEL gpu LINK zenflow::kernels_cuda)
  endforeach()
  # Is built with the tests, so that it keeps compiling; says so if there is no GPU.
  add_executable(zenflow-cuda-bench bench/cuda_kernels_bench.cpp)
  target_include_directories(zenflow-cuda-bench PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(zenflow-cuda-bench PRIVATE zenflow::kernels_cuda fmt::fmt zenflow::warnings)
endif()

# A test that runs on the emulator, linked to the libraries named last.
function(zenflow_emulated_test name source)
  zenflow_test_group(${name} LABEL emulator TIMEOUT 300 SOURCES ${source} LINK ${ARGN})
endfunction()

# CUDA's runtime interface on the host: streams are threads.
add_library(emulated_runtime STATIC emulator/device_memory.cpp emulator/streams.cpp)
# Before all others: <cuda_runtime.h> is the emulator's.
target_include_directories(emulated_runtime BEFORE
  PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/emulator/include ${PROJECT_SOURCE_DIR})
target_link_libraries(emulated_runtime PUBLIC zenflow::device PRIVATE zenflow::warnings)

find_package(Boost 1.74 QUIET COMPONENTS context)
if(ZENFLOW_SANITIZE MATCHES "thread")
  message(STATUS "zenflow-sim: no emulated CUDA kernels under the thread sanitizer, which "
                 "sees neither OpenMP's barriers nor switches of fibers")
elseif(NOT TARGET Boost::context)
  message(STATUS "zenflow-sim: no Boost.Context (Debian: libboost-context-dev), so no emulated CUDA kernels")
else()
  find_package(OpenMP COMPONENTS CXX)  # without it blocks run one after the other
  get_property(emulated_kernels GLOBAL PROPERTY ZENFLOW_CUDA_KERNEL_SOURCES)
  set_source_files_properties(${emulated_kernels} PROPERTIES LANGUAGE CXX)

  add_library(emulated_kernels STATIC emulator/emulator.cpp emulator/fiber.cpp ${emulated_kernels})
  # Kernels tell nvcc by `#pragma unroll` what other compilers need not know.
  target_compile_options(emulated_kernels PUBLIC -Wno-unknown-pragmas $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>)
  zenflow_optimise_in_debug(emulated_kernels)  # every thread of every block runs here
  target_link_libraries(emulated_kernels PUBLIC emulated_runtime zenflow::kernels zenflow::base
    PRIVATE Boost::context fmt::fmt zenflow::warnings)
  if(OpenMP_CXX_FOUND)
    target_link_libraries(emulated_kernels PRIVATE OpenMP::OpenMP_CXX)
  endif()

  zenflow_test(emulator_test LABEL emulator LINK emulated_kernels GTest::gmock)
  foreach(test ${cuda_kernel_tests})
    zenflow_emulated_test(${test}_emulated gpu/${test}.cpp emulated_kernels)
  endforeach()
endif()
