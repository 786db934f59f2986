# Kernels: references by hand-worked numbers, and every version of a kernel against its reference,
# bit for bit.
foreach(test bf16 cast dispatch accumulate adamw adamw_columns column_norm columns square_sum top_k)
  zenflow_test(${test}_test LABEL unit LINK zenflow::kernels)
endforeach()
zenflow_test(adamw_isa_test LABEL differential LINK zenflow::kernels)
zenflow_test(column_norm_isa_test LABEL differential LINK zenflow::kernels)
zenflow_test(adamw_torch_test LABEL differential LINK zenflow::kernels)
