baton_test(schemas
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/schemas/golden_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/schemas/malformed_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/schemas/round_trip_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/schemas/words_test.cpp
  LINKS baton::schemas
  LABELS unit)
