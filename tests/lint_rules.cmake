# The linter of DeepSpeed configurations and its documents. (lint.cmake is about the source tree.)
zenflow_test_group(ds_lint_test LABEL unit
  SOURCES unit/hjson_test.cpp unit/ds_document_test.cpp unit/lint_test.cpp
          unit/lint_table_test.cpp unit/lax_values_test.cpp unit/python_batch_test.cpp
          unit/optimizer_test.cpp unit/unmodelled_keys_test.cpp unit/accelerate_test.cpp
  LINK zenflow::deepspeed GTest::gmock fmt::fmt)
