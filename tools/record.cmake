# zenflow-calibrate's command "record", and the library that it has loaded into the programs it
# records.
zenflow_part(zenflow_record_command
  SOURCES commands/record.cpp commands/traced_process.cpp
  LINK zenflow::gpu_trace zenflow_command_line)

if(ZENFLOW_HAVE_CUDA)
  # Goes into programs of any kind: no symbol but its entry is seen, and it brings its own C++
  # library. Its sources are compiled again, position-independent and with fmt's headers only.
  set(sources activity_file_writer.cpp activity_parser.cpp buffer_pool.cpp cupti_api.cpp
              cupti_session.cpp)
  list(TRANSFORM sources PREPEND ${PROJECT_SOURCE_DIR}/runtime/trace/cupti/)
  list(APPEND sources ${PROJECT_SOURCE_DIR}/runtime/gpu/dynamic_library.cpp
       ${PROJECT_SOURCE_DIR}/runtime/gpu/libraries.cpp)
  add_library(zenflow_inject MODULE zenflow_inject.cpp ${sources})
  set_target_properties(zenflow_inject PROPERTIES CXX_VISIBILITY_PRESET hidden
                        VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(zenflow_inject PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(zenflow_inject SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  find_package(Threads REQUIRED)
  target_link_libraries(zenflow_inject PRIVATE fmt::fmt-header-only nlohmann_json::nlohmann_json
                        Threads::Threads ${CMAKE_DL_LIBS} zenflow::warnings)
  target_link_options(zenflow_inject PRIVATE
                      LINKER:--version-script=${CMAKE_CURRENT_SOURCE_DIR}/zenflow_inject.map
                      LINKER:--gc-sections  # of C++'s library what is not called may need a newer C library
                      LINKER:-z,nodelete)  # NVTX closes what it cannot use; threads may be in here
  set_target_properties(zenflow_inject PROPERTIES LINK_DEPENDS
                        ${CMAKE_CURRENT_SOURCE_DIR}/zenflow_inject.map)
  if(NOT ZENFLOW_SANITIZE)
    target_link_options(zenflow_inject PRIVATE -static-libstdc++ -static-libgcc)
  endif()
  target_compile_definitions(zenflow_inject PRIVATE
                             $<TARGET_PROPERTY:zenflow_gpu,COMPILE_DEFINITIONS>)
  add_dependencies(zenflow_record_command zenflow_inject)
  install(TARGETS zenflow_inject LIBRARY DESTINATION ${ZENFLOW_LIB})
endif()
