/// The programs as functions: what their mains call, and who has them run within another program.
#pragma once

/// Of functions that a shared library shows.
#define ZENFLOW_SHOWN __attribute__((visibility("default")))

namespace zenflow::tools {

// What each main calls. Returns the exit code; catches signals.
ZENFLOW_SHOWN int sim_main(int argc, char** argv);
ZENFLOW_SHOWN int tune_main(int argc, char** argv);
ZENFLOW_SHOWN int train_main(int argc, char** argv);
ZENFLOW_SHOWN int calibrate_main(int argc, char** argv);
ZENFLOW_SHOWN int validate_main(int argc, char** argv);

// The same without signals, for callers that go on afterwards.
int run_sim(int argc, char** argv);
int run_tune(int argc, char** argv);

}  // namespace zenflow::tools
