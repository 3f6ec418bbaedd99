baton_test(cluster
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/cluster/client_stream_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/cluster/cluster_store_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/cluster/cluster_table_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/cluster/commit_rule_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/cluster/lease_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/cluster/planned_moves_test.cpp
  LINKS baton::protocol
  LABELS unit)
