# Fuzz targets beside those of the configuration readers (config.cmake, which defines
# zenflow_fuzz).
zenflow_fuzz(fuzz_deepspeed LINK zenflow::deepspeed)
zenflow_fuzz(fuzz_scenario LINK zenflow::schedule)
zenflow_fuzz(fuzz_training_file LINK zenflow::job_files)
zenflow_fuzz(fuzz_results LINK zenflow::accuracy zenflow::probe_figures)
zenflow_fuzz(fuzz_published LINK zenflow::accuracy zenflow::tune)
zenflow_fuzz(fuzz_request LINK zenflow::tune)
zenflow_fuzz(fuzz_study LINK zenflow::tune SQLite::SQLite3)
zenflow_fuzz(fuzz_tune_trace LINK zenflow_tune_summary zenflow::train_command MUTATIONS 100)
