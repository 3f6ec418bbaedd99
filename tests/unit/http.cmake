find_package(nlohmann_json 3.11 REQUIRED)

baton_test(http
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/http/openai_request_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/http/openai_response_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/http/turn_response_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/http/server_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/http/server_faults_test.cpp
  LINKS baton::http nlohmann_json::nlohmann_json Threads::Threads
  LABELS unit)
