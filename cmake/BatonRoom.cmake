# One library per room: target baton_<name>, alias baton::<name>, root-relative includes, every warning on.
#
#   baton_room(transports SOURCES inproc_transport.cpp ... LINKS baton::schemas PRIVATE_LINKS ucx::ucp)
function(baton_room name)
  cmake_parse_arguments(room "" "" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  add_library(baton_${name} STATIC ${room_SOURCES})
  add_library(baton::${name} ALIAS baton_${name})
  target_include_directories(baton_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/baton>)
  target_link_libraries(baton_${name} PUBLIC ${room_LINKS} PRIVATE ${room_PRIVATE_LINKS} baton_warnings)
endfunction()

# A Catch2 test program of a room: baton_test(protocol SOURCES ... LINKS ... LABELS unit)
function(baton_test name)
  cmake_parse_arguments(test "" "" "SOURCES;LINKS;LABELS;ENVIRONMENT" ${ARGN})
  add_executable(test_${name} ${test_SOURCES})
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(test_${name} PRIVATE ${test_LINKS} baton_test_main baton_warnings)
  if(BATON_SANITIZE)
    list(APPEND test_ENVIRONMENT BATON_SEEDS=300)
  endif()
  if(test_ENVIRONMENT)
    set(environment ENVIRONMENT "${test_ENVIRONMENT}")
  endif()
  catch_discover_tests(test_${name} TEST_PREFIX "${name}: "
    PROPERTIES LABELS "${test_LABELS}" TIMEOUT 120 ${environment})
endfunction()
