# zenflow_module(<name> SOURCES ... HEADERS ... PUBLIC ... PRIVATE ...)
# One static library zenflow_<name>, alias zenflow::<name>. Headers are included from the
# repository root; `all_verify_interface_header_sets` compiles each of them alone.
function(zenflow_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;HEADERS;PUBLIC;PRIVATE")
  set(scope PUBLIC)
  if(arg_SOURCES)
    add_library(zenflow_${name} STATIC ${arg_SOURCES})
    target_link_libraries(zenflow_${name} PUBLIC ${arg_PUBLIC}
                          PRIVATE ${arg_PRIVATE} $<BUILD_INTERFACE:zenflow::warnings>)
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
