# zenflow_join_sources(<target> [<sources that are compiled alone>...])
# With ZENFLOW_UNITY a library's sources are compiled as one, which reads their headers once. Those that
# give something local the name that another one gives to something else are compiled alone, and so are those that
# a program may have another version of. ("As one", not by the dozen: which sources meet does not depend on how many
# there are.)
function(zenflow_join_sources target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ZENFLOW_UNITY} UNITY_BUILD_BATCH_SIZE 0)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# The headers that nearly all sources include, compiled once. As for those of the tests (tests/CMakeLists.txt):
# builds with a compiler cache, and `clang`, show what a source forgot to include. With GCC only where it optimises:
# fmt has it do so for a while where it does not, which GCC 12 goes on believing (__OPTIMIZE__) behind compiled headers.
set(ZENFLOW_SHARED_HEADERS OFF)
if(ZENFLOW_UNITY AND NOT CMAKE_CXX_COMPILER_LAUNCHER AND
   (CMAKE_CXX_COMPILER_ID MATCHES "Clang" OR NOT CMAKE_BUILD_TYPE MATCHES "^(Debug)?$"))
  set(ZENFLOW_SHARED_HEADERS ON)
  find_package(fmt 9.1 REQUIRED)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/shared_headers.cpp CONTENT "")
  add_library(zenflow_shared_headers OBJECT ${CMAKE_CURRENT_BINARY_DIR}/shared_headers.cpp)
  target_link_libraries(zenflow_shared_headers PRIVATE fmt::fmt zenflow::warnings)
  target_precompile_headers(zenflow_shared_headers PRIVATE
    <algorithm> <array> <chrono> <cmath> <cstdint> <filesystem> <functional> <map> <memory> <optional> <set> <span>
    <string> <string_view> <utility> <vector> <fmt/format.h>)
endif()

# zenflow_share_headers(<target>): of a target that links fmt.
function(zenflow_share_headers target)
  if(ZENFLOW_SHARED_HEADERS)
    target_precompile_headers(${target} REUSE_FROM zenflow_shared_headers)
  endif()
endfunction()

# zenflow_compile_quickly(<target>): code that waits for files and people, and takes longer to optimise than it will
# ever run.
function(zenflow_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
endfunction()

# zenflow_optimise_in_debug(<target>): code in which tests spend their time. Without any optimisation the sanitizers
# make minutes of seconds.
function(zenflow_optimise_in_debug target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:-O1>)
endfunction()

# zenflow_module(<name> [HOT] SOURCES ... HEADERS ... PUBLIC ... PRIVATE ... [ALONE ...])
# One static library zenflow_<name>, alias zenflow::<name>. Headers are included from the
# repository root; `all_verify_interface_header_sets` compiles each of them alone. ALONE: see above. HOT: optimised in
# debug builds, too.
function(zenflow_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "HOT" "" "SOURCES;HEADERS;PUBLIC;PRIVATE;ALONE")
  set(scope PUBLIC)
  if(arg_SOURCES)
    add_library(zenflow_${name} STATIC ${arg_SOURCES})
    target_link_libraries(zenflow_${name} PUBLIC ${arg_PUBLIC}
                          PRIVATE ${arg_PRIVATE} $<BUILD_INTERFACE:zenflow::warnings>)
    zenflow_join_sources(zenflow_${name} ${arg_ALONE})
    if(arg_HOT)
      zenflow_optimise_in_debug(zenflow_${name})
    endif()
    if(("fmt::fmt" IN_LIST arg_PUBLIC OR "fmt::fmt" IN_LIST arg_PRIVATE) AND
       NOT (arg_HOT AND CMAKE_BUILD_TYPE STREQUAL "Debug"))  # as the headers are optimised, or not at all
      zenflow_share_headers(zenflow_${name})
    endif()
  else()
    add_library(zenflow_${name} INTERFACE)
    set(scope INTERFACE)
    target_link_libraries(zenflow_${name} INTERFACE ${arg_PUBLIC})
  endif()
  add_library(zenflow::${name} ALIAS zenflow_${name})
  set_target_properties(zenflow_${name} PROPERTIES EXPORT_NAME ${name} VERIFY_INTERFACE_HEADER_SETS ON)
  target_compile_features(zenflow_${name} ${scope} cxx_std_20)
  target_sources(zenflow_${name} ${scope} FILE_SET HEADERS
                 BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${arg_HEADERS})
endfunction()
