baton_test(text
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/text/text_stream_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/text/utf8_test.cpp
  LINKS baton::text
  LABELS unit)
