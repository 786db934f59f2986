# zenflow::warnings: compile flags for our own code only; never exported.
add_library(zenflow_warnings INTERFACE)
add_library(zenflow::warnings ALIAS zenflow_warnings)
set(_cxx -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wnon-virtual-dtor
         -Wold-style-cast -Wcast-qual -Wimplicit-fallthrough)
if(ZENFLOW_WERROR)
  list(APPEND _cxx -Werror)
endif()
string(REPLACE ";" "," _host "-Wall;-Wextra;-Wshadow")
target_compile_options(zenflow_warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${_cxx}>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${_host}>"
  "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${ZENFLOW_WERROR}>>:-Werror=all-warnings>")
# Results must be identical bit for bit on every build type and device: no contraction of a*b+c.
target_compile_options(zenflow_warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>"
  "$<$<COMPILE_LANGUAGE:CUDA>:--fmad=false;-Xcompiler=-ffp-contract=off>")
