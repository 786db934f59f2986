# The live runtime on the host device: against sequential programs, under delays and faults.
zenflow_test(offload_engine_test LABEL property LINK zenflow::offload_engine)
