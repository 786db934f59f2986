# The transformer on the GPU. What needs no cuBLAS is built by the tests for the emulator, too.
set(cuda_model_sources model_batch.cpp model_block.cpp model_head.cpp model_linear.cpp
    model_passes.cpp model_transformer.cpp)
list(TRANSFORM cuda_model_sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
set_property(GLOBAL PROPERTY ZENFLOW_CUDA_MODEL_SOURCES ${cuda_model_sources})

if(ZENFLOW_HAVE_CUDA)
  zenflow_module(cuda_model
    SOURCES ${cuda_model_sources} cuda/model_cublas.cpp
    HEADERS cuda/model_arena.h cuda/model_batch.h cuda/model_block.h cuda/model_cublas.h
            cuda/model_gemm.h cuda/model_head.h cuda/model_linear.h cuda/model_passes.h
            cuda/model_transformer.h
    PUBLIC  zenflow::offload zenflow::gpu zenflow::kernels_cuda
    PRIVATE fmt::fmt)
endif()
