# The runtime's model on the host: operations, families against PyTorch, weights on disk.
zenflow_test_group(runtime_model_test LABEL unit
  SOURCES unit/thread_pool_test.cpp unit/model_operations_test.cpp unit/initialize_test.cpp
          unit/safetensors_test.cpp
  LINK zenflow::runtime_model GTest::gmock)
zenflow_test_group(transformer_test LABEL unit
  SOURCES unit/attention_test.cpp unit/transformer_config_test.cpp unit/transformer_test.cpp
  LINK zenflow::runtime_model GTest::gmock)
zenflow_test(weight_file_test LABEL unit LINK zenflow::runtime_model GTest::gmock)
zenflow_test(safetensors_property_test LABEL property LINK zenflow::runtime_model)
zenflow_test(model_reference_test LABEL differential LINK zenflow::runtime_model)

set(ZENFLOW_REFERENCE_PYTHON "" CACHE STRING
    "A Python with torch, transformers and safetensors, for a test that reads our files with it")
if(ZENFLOW_REFERENCE_PYTHON)
  zenflow_test(safetensors_python_test LABEL differential LINK zenflow::runtime_model)
  target_compile_definitions(safetensors_python_test PRIVATE
                             ZENFLOW_REFERENCE_PYTHON="${ZENFLOW_REFERENCE_PYTHON}")
endif()

if(TARGET zenflow-bench)
  target_sources(zenflow-bench PRIVATE bench/model_bench.cpp)
  target_link_libraries(zenflow-bench PRIVATE zenflow::runtime_model)
endif()
