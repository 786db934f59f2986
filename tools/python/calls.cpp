#include "tools/python/calls.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tools/environment.h"

using namespace zenflow::tools;  // NOLINT: these functions have C's names

int zenflow_call(const char* program, int count, const char* const* arguments, char** out,
                 char** err) {
  std::vector<std::string> texts = {program};
  texts.insert(texts.end(), arguments, arguments + count);
  std::vector<char*> line;
  line.reserve(texts.size());
  for (std::string& text : texts) line.push_back(text.data());
  const CapturedOutput captured;
  const auto run = std::string_view(program) == "zenflow-tune" ? run_tune : run_sim;
  const int code = run(static_cast<int>(line.size()), line.data());
  *out = ::strdup(captured.out().c_str());
  *err = ::strdup(captured.err().c_str());
  return code;
}

void zenflow_free(char* text) {
  std::free(text);
}

void zenflow_stop(int stop) {
  ask_to_stop(stop != 0);
}
