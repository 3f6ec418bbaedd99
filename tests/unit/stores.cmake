# The record stores, against a real etcd as well.
find_package(nlohmann_json 3.11 REQUIRED)
baton_test(stores
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/stores/record_store_test.cpp
  LINKS baton::stores nlohmann_json::nlohmann_json
  LABELS stores
  ENVIRONMENT BATON_ETCD=${BATON_ETCD})
