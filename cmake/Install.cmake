# What is installed, and where programs find it: bin/, beside it share/zenflow-sim/ with profiles and scenarios, and
# lib/zenflow-sim/ with what programs load. In a wheel these are below the environment's folder, and lib/zenflow-sim/
# also has the libraries that a machine may lack.
if(SKBUILD)
  set(ZENFLOW_BIN ${SKBUILD_SCRIPTS_DIR})
  set(prefix ${SKBUILD_DATA_DIR}/)
  set(ZENFLOW_PAGES ${prefix}share)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  # Of the shared libraries nothing is seen but what programs.h shows.
  set(CMAKE_CXX_VISIBILITY_PRESET hidden)
  set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
  set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
else()
  set(ZENFLOW_BIN bin)
  set(prefix)
  set(ZENFLOW_PAGES "\${CMAKE_INSTALL_PREFIX}/share")  # install(CODE) needs all of it
endif()
set(ZENFLOW_SHARE ${prefix}share/zenflow-sim)
set(ZENFLOW_LIB ${prefix}lib/zenflow-sim)

# zenflow_install_page(<program> <page> <folder> <file>): what `<program> --print-page <page>` says, below share/.
# Made at installation and not with the build: programs with sanitizers may not run everywhere.
function(zenflow_install_page program page folder file)
  install(CODE "
    set(made \"${PROJECT_BINARY_DIR}/pages/${file}\")
    file(MAKE_DIRECTORY \"${PROJECT_BINARY_DIR}/pages\")
    execute_process(COMMAND \"$<TARGET_FILE:${program}>\" --print-page ${page} OUTPUT_FILE \"\${made}\"
                    COMMAND_ERROR_IS_FATAL ANY)
    set(folder \"${ZENFLOW_PAGES}/${folder}\")
    if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")  # where Debian's zsh looks
      string(REPLACE zsh/site-functions zsh/vendor-completions folder \"\${folder}\")
    endif()
    file(INSTALL \"\${made}\" DESTINATION \"\${folder}\")")
endfunction()

# zenflow_install(<program>): with its manual page and completion for bash and zsh.
function(zenflow_install program)
  if(SKBUILD)
    # As for the libraries: RPATH, not RUNPATH, which their own dependencies would not be looked for in.
    target_link_options(${program} PRIVATE LINKER:--disable-new-dtags)
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/zenflow-sim")
  endif()
  install(TARGETS ${program} RUNTIME DESTINATION ${ZENFLOW_BIN})
  zenflow_install_page(${program} man man/man1 ${program}.1)
  zenflow_install_page(${program} bash bash-completion/completions ${program})
  zenflow_install_page(${program} zsh zsh/site-functions _${program})
endfunction()

# zenflow_shared_library(<name>): once for each name; in a wheel alone.
function(zenflow_shared_library name)
  if(TARGET ${name})
    return()
  endif()
  add_library(${name} SHARED)
  # Studies are of one build.
  target_link_options(${name} PRIVATE LINKER:--disable-new-dtags LINKER:--build-id LINKER:--gc-sections)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX INSTALL_RPATH "$ORIGIN")
  install(TARGETS ${name} RUNTIME_DEPENDENCY_SET zenflow_libraries LIBRARY DESTINATION ${ZENFLOW_LIB})
endfunction()

# After all programs.
function(zenflow_install_libraries)
  if(NOT SKBUILD)
    return()
  endif()
  # What every system has that the wheel's name admits: the C library, and C++'s.
  install(RUNTIME_DEPENDENCY_SET zenflow_libraries
          PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|util|resolv|stdc\\+\\+|gcc_s)\\.so"
          DESTINATION ${ZENFLOW_LIB})
endfunction()
