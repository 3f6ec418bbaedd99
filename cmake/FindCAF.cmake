# Finds the C++ Actor Framework where the distribution ships only headers and shared libraries (no CAFConfig.cmake).
#
#   find_package(CAF 0.17.6 REQUIRED COMPONENTS core io)
#
# Defines CAF_VERSION and the imported targets CAF::core and CAF::io.
include(FindPackageHandleStandardArgs)
find_package(Threads REQUIRED)

find_path(CAF_INCLUDE_DIR caf/all.hpp)
if(CAF_INCLUDE_DIR AND EXISTS "${CAF_INCLUDE_DIR}/caf/config.hpp")
  # CAF_VERSION is one number: major * 10000 + minor * 100 + patch.
  file(STRINGS "${CAF_INCLUDE_DIR}/caf/config.hpp" version_line REGEX "^#define CAF_VERSION +[0-9]+")
  string(REGEX REPLACE "^#define CAF_VERSION +([0-9]+).*" "\\1" version_number "${version_line}")
  math(EXPR version_major "${version_number} / 10000")
  math(EXPR version_minor "(${version_number} / 100) % 100")
  math(EXPR version_patch "${version_number} % 100")
  set(CAF_VERSION "${version_major}.${version_minor}.${version_patch}")
endif()

foreach(component IN LISTS CAF_FIND_COMPONENTS)
  find_library(CAF_${component}_LIBRARY NAMES caf_${component})
  if(CAF_${component}_LIBRARY)
    set(CAF_${component}_FOUND TRUE)
  endif()
endforeach()

find_package_handle_standard_args(CAF REQUIRED_VARS CAF_INCLUDE_DIR VERSION_VAR CAF_VERSION HANDLE_COMPONENTS)

foreach(component IN LISTS CAF_FIND_COMPONENTS)
  if(CAF_FOUND AND CAF_${component}_FOUND AND NOT TARGET CAF::${component})
    add_library(CAF::${component} UNKNOWN IMPORTED)
    set_target_properties(CAF::${component} PROPERTIES
      IMPORTED_LOCATION "${CAF_${component}_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}"
      INTERFACE_LINK_LIBRARIES Threads::Threads)
  endif()
endforeach()
if(TARGET CAF::io)
  set_property(TARGET CAF::io APPEND PROPERTY INTERFACE_LINK_LIBRARIES CAF::core)
  if(BATON_SANITIZE)
    # Its templates take a minute a unit to compile with a sanitizer and any optimisation, a third of that without.
    # They bind references to null where a function to spawn takes nothing (init_fun_factory.hpp).
    target_compile_options(CAF::io INTERFACE -O0 -fno-sanitize=null)
  endif()
endif()
mark_as_advanced(CAF_INCLUDE_DIR CAF_core_LIBRARY CAF_io_LIBRARY)
