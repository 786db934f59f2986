# OneDNN::OneDNN: the library's C interface and the OpenMP runtime it was built for.
# oneDNN's own dnnl-config.cmake, as Debian builds it, requires OpenCL's headers, which nothing
# here uses and libdnnl-dev only recommends.
find_path(OneDNN_INCLUDE_DIR oneapi/dnnl/dnnl.h)
find_library(OneDNN_LIBRARY dnnl)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN REQUIRED_VARS OneDNN_LIBRARY OneDNN_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "on Debian: apt-get install libdnnl-dev")
mark_as_advanced(OneDNN_INCLUDE_DIR OneDNN_LIBRARY)
if(OneDNN_FOUND AND NOT TARGET OneDNN::OneDNN)
  add_library(OneDNN::OneDNN UNKNOWN IMPORTED)
  # gomp by name, not -fopenmp: with clang that would be another runtime than oneDNN's.
  set_target_properties(OneDNN::OneDNN PROPERTIES IMPORTED_LOCATION ${OneDNN_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${OneDNN_INCLUDE_DIR} INTERFACE_LINK_LIBRARIES gomp)
endif()
