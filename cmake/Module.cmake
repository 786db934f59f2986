# zenflow_join_sources(<target> [<sources that are compiled alone>...])
# With ZENFLOW_UNITY a library's sources are compiled as one, which reads their headers once. Those that
# give something local the name that another one gives to something else are compiled alone, and so are those that
# a program may have another version of. ("As one", not by the dozen: which sources meet does not depend on how many
# there are.)
function(zenflow_join_sources target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ZENFLOW_UNITY} UNITY_BUILD_BATCH_SIZE 0)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# zenflow_module(<name> SOURCES ... HEADERS ... PUBLIC ... PRIVATE ... [ALONE ...])
# One static library zenflow_<name>, alias zenflow::<name>. Headers are included from the
# repository root; `all_verify_interface_header_sets` compiles each of them alone. ALONE: see above.
function(zenflow_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;HEADERS;PUBLIC;PRIVATE;ALONE")
  set(scope PUBLIC)
  if(arg_SOURCES)
    add_library(zenflow_${name} STATIC ${arg_SOURCES})
    target_link_libraries(zenflow_${name} PUBLIC ${arg_PUBLIC}
                          PRIVATE ${arg_PRIVATE} $<BUILD_INTERFACE:zenflow::warnings>)
    zenflow_join_sources(zenflow_${name} ${arg_ALONE})
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
