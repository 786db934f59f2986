# The transformer on the GPU. Kernels' tests are built twice, as in emulator.cmake.
set(model_kernel_tests attention_cuda_test cross_entropy_cuda_test model_elementwise_cuda_test
    norm_cuda_test)

if(ZENFLOW_HAVE_CUDA)
  foreach(test ${model_kernel_tests})
    zenflow_test(${test} LABEL gpu LINK zenflow::kernels_cuda)
  endforeach()
endif()

if(TARGET emulated_kernels)
  foreach(test ${model_kernel_tests})
    add_executable(${test}_emulated gpu/${test}.cpp)
    target_link_libraries(${test}_emulated PRIVATE emulated_kernels GTest::gtest_main
                          zenflow::warnings)
    gtest_discover_tests(${test}_emulated TEST_PREFIX "emulator/" DISCOVERY_MODE PRE_TEST
                         PROPERTIES LABELS emulator TIMEOUT 120)
    zenflow_label(${test}_emulated emulator)
  endforeach()
endif()
