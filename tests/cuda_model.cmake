# The transformer on the GPU. Kernels' tests are built twice, as in emulator.cmake.
set(model_kernel_tests attention_cuda_test cross_entropy_cuda_test model_elementwise_cuda_test
    norm_cuda_test)

if(ZENFLOW_HAVE_CUDA)
  foreach(test ${model_kernel_tests})
    zenflow_test(${test} LABEL gpu LINK zenflow::kernels_cuda)
  endforeach()
  foreach(test cublas_gemm_test cuda_model_test)
    zenflow_test(${test} LABEL gpu LINK zenflow::cuda_model)
  endforeach()
endif()

if(TARGET emulated_kernels)
  get_property(emulated_model GLOBAL PROPERTY ZENFLOW_CUDA_MODEL_SOURCES)
  add_library(emulated_model STATIC ${emulated_model})
  target_link_libraries(emulated_model PUBLIC emulated_kernels zenflow::offload_engine
                        PRIVATE fmt::fmt zenflow::warnings)
  zenflow_emulated_test(cuda_model_test_emulated gpu/cuda_model_test.cpp emulated_model)
  # On the CUDA device and the emulator's asynchronous streams (cuda_device.cmake).
  if(TARGET emulated_cuda)
    zenflow_emulated_test(cuda_model_async_test unit/cuda_model_async_test.cpp emulated_cuda emulated_model)
  endif()
  zenflow_test(trainer_activations_test LABEL differential LINK emulated_model zenflow::memory)

  foreach(test ${model_kernel_tests})
    zenflow_emulated_test(${test}_emulated gpu/${test}.cpp emulated_kernels)
  endforeach()
endif()
