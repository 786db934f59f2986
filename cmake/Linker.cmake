# Programs are linked by LLVM's linker where it is installed (Debian: lld): a build links some 150 of them.
find_program(ZENFLOW_LLD ld.lld)
mark_as_advanced(ZENFLOW_LLD)
if(ZENFLOW_LLD)
  add_link_options($<$<LINK_LANGUAGE:CXX>:-fuse-ld=lld>)
endif()
