# What is installed, and where programs find it: bin/, beside it share/zenflow-sim/ with profiles and scenarios, and
# in a wheel lib/zenflow-sim/ with the libraries that a machine may lack.
if(SKBUILD)
  set(ZENFLOW_BIN ${SKBUILD_SCRIPTS_DIR})
  set(ZENFLOW_SHARE ${SKBUILD_DATA_DIR}/share/zenflow-sim)
  set(ZENFLOW_LIB ${SKBUILD_DATA_DIR}/lib/zenflow-sim)
else()
  set(ZENFLOW_BIN bin)
  set(ZENFLOW_SHARE share/zenflow-sim)
endif()

# zenflow_install(<program>)
function(zenflow_install program)
  if(NOT SKBUILD)
    install(TARGETS ${program} RUNTIME DESTINATION ${ZENFLOW_BIN})
    return()
  endif()
  # Both are below the environment's folder once pip has installed them.
  set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/zenflow-sim")
  install(TARGETS ${program} RUNTIME_DEPENDENCY_SET zenflow_libraries
          RUNTIME DESTINATION ${ZENFLOW_BIN} COMPONENT wheel)
endfunction()

# After all programs.
function(zenflow_install_libraries)
  if(NOT SKBUILD)
    return()
  endif()
  # The C library is the system's; everything else comes along, also C++'s, which may be older there.
  install(RUNTIME_DEPENDENCY_SET zenflow_libraries COMPONENT wheel
          PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|util|resolv)\\.so"
          DESTINATION ${ZENFLOW_LIB})
endfunction()
