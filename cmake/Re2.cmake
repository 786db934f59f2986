# zenflow::re2, regular expressions in time linear in the text. Debian's package has no CMake configuration.
find_library(ZENFLOW_RE2_LIBRARY re2 REQUIRED)
find_path(ZENFLOW_RE2_INCLUDE re2/re2.h REQUIRED)
mark_as_advanced(ZENFLOW_RE2_LIBRARY ZENFLOW_RE2_INCLUDE)
add_library(zenflow::re2 UNKNOWN IMPORTED)
set_target_properties(zenflow::re2 PROPERTIES IMPORTED_LOCATION ${ZENFLOW_RE2_LIBRARY}
                                              INTERFACE_INCLUDE_DIRECTORIES ${ZENFLOW_RE2_INCLUDE}
                                              INTERFACE_LINK_LIBRARIES Threads::Threads)
