# Kernels: scalar references by hand-worked numbers; CUDA against them, bit for bit.
zenflow_test(column_norm_test LABEL unit LINK zenflow::kernels)
if(ZENFLOW_HAVE_CUDA)
  zenflow_test(cuda_check_test LABEL unit LINK zenflow::kernels_cuda GTest::gmock)
  zenflow_test(column_norm_cuda_test LABEL gpu LINK zenflow::kernels_cuda)
endif()
