/// The main of each program. ZENFLOW_MAIN: its function of programs.h.
#include <fcntl.h>
#include <unistd.h>

#include "tools/programs.h"

namespace {

/// A standard stream that is closed (`2>&-`) would become the next file that is opened, and
/// messages end in it: what stands in can be neither read as input nor written as output.
void fill_closed_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    const int how = stream == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (::fcntl(stream, F_GETFD) < 0) static_cast<void>(::open("/dev/null", how));
  }
}

}  // namespace

int main(int argc, char** argv) {
  fill_closed_streams();
  return zenflow::tools::ZENFLOW_MAIN(argc, argv);
}
