# Fuzz targets beside those of the configuration readers (config.cmake, which defines
# zenflow_fuzz).
zenflow_fuzz(fuzz_deepspeed LINK zenflow::deepspeed)
