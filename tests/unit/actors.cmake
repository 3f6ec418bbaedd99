# The plain objects that the actors drive.
baton_test(actors
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/actors/data_plane_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/actors/engine_loop_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/actors/gateway_archive_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/actors/gateway_core_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/actors/gateway_poison_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/actors/kept_answers_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/actors/link_driver_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/transports/tsan_environment.cpp
  LINKS baton::cluster
  LABELS unit)
