baton_test(protocol
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/protocol/session_log_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/protocol/evaluation_plan_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/protocol/link_simulation.cpp
    ${CMAKE_CURRENT_LIST_DIR}/protocol/link_world.cpp
  LINKS baton::protocol
  LABELS unit)
