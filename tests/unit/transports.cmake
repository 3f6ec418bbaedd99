include(${CMAKE_CURRENT_LIST_DIR}/tsan.cmake)

add_executable(ucx_peer transports/ucx_peer.cpp)
target_include_directories(ucx_peer PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(ucx_peer PRIVATE baton::transports baton_warnings)

baton_test(transports
  SOURCES transports/faulty_transport.cpp transports/transport_contract.cpp transports/tsan_environment.cpp
    transports/ucx_process.cpp
  LINKS baton::transports
  LABELS unit)
target_compile_definitions(test_transports PRIVATE BATON_UCX_PEER="$<TARGET_FILE:ucx_peer>")
add_dependencies(test_transports ucx_peer)
