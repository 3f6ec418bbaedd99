
add_executable(peer_process transports/peer_process.cpp)
target_include_directories(peer_process PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(peer_process PRIVATE baton::transports baton_warnings)

baton_test(transports
  SOURCES transports/faulty_transport.cpp transports/killed_peers.cpp transports/transport_contract.cpp
    transports/tsan_environment.cpp
  LINKS baton::transports
  LABELS unit)
target_compile_definitions(test_transports PRIVATE BATON_PEER_PROCESS="$<TARGET_FILE:peer_process>")
add_dependencies(test_transports peer_process)
