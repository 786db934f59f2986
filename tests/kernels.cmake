# Kernels: references by hand-worked numbers, and every version of a kernel against its reference,
# bit for bit.
zenflow_test_group(kernels_test LABEL unit
  SOURCES unit/bf16_test.cpp unit/cast_test.cpp unit/dispatch_test.cpp unit/accumulate_test.cpp unit/adamw_test.cpp
          unit/column_norm_test.cpp unit/columns_test.cpp unit/square_sum_test.cpp unit/top_k_test.cpp
          unit/adamw_columns_test.cpp
  LINK zenflow::kernels)
zenflow_test(adamw_isa_test LABEL differential LINK zenflow::kernels)
zenflow_test(column_norm_isa_test LABEL differential LINK zenflow::kernels)
zenflow_test(adamw_torch_test LABEL differential LINK zenflow::kernels)
