# The runtime's model on the host: operations, families against PyTorch, weights on disk.
zenflow_test(thread_pool_test LABEL unit LINK zenflow::runtime_model)
zenflow_test(model_operations_test LABEL unit LINK zenflow::runtime_model)
zenflow_test(attention_test LABEL unit LINK zenflow::runtime_model)
zenflow_test(model_reference_test LABEL differential LINK zenflow::runtime_model)

if(TARGET zenflow-bench)
  target_sources(zenflow-bench PRIVATE bench/model_bench.cpp)
  target_link_libraries(zenflow-bench PRIVATE zenflow::runtime_model)
endif()
