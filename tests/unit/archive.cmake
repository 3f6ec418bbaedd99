baton_test(archive
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/archive/object_store_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/archive/archive_test.cpp
  LINKS baton::archive Threads::Threads
  LABELS unit)
