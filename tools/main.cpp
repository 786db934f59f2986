/// The main of each program. ZENFLOW_MAIN: its function of programs.h.
#include "tools/programs.h"

int main(int argc, char** argv) {
  return zenflow::tools::ZENFLOW_MAIN(argc, argv);
}
