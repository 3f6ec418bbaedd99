baton_test(graph
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/graph/parse_test.cpp ${CMAKE_CURRENT_LIST_DIR}/graph/refusals_test.cpp
  LINKS baton::graph
  LABELS unit)

if(BATON_ACTORS)
  # The parts of the command line that need no cluster.
  baton_test(apps
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/graph/client_test.cpp ${CMAKE_CURRENT_LIST_DIR}/graph/host_test.cpp
    LINKS baton::apps baton::engines
    LABELS unit)
endif()
