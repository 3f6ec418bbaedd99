baton_test(protocol
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/protocol/evaluation_plan_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/protocol/link_sender_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/protocol/link_simulation.cpp
    ${CMAKE_CURRENT_LIST_DIR}/protocol/link_world.cpp
    ${CMAKE_CURRENT_LIST_DIR}/protocol/link_world_standbys.cpp
    ${CMAKE_CURRENT_LIST_DIR}/protocol/primary_archive_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/protocol/primary_moves_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/protocol/primary_standbys_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/protocol/primary_table_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/protocol/primary_turns_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/protocol/replica_set_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/protocol/session_log_test.cpp
  LINKS baton::protocol
  LABELS unit)
