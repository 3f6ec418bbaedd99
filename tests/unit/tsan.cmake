# Shows that the thread sanitizer catches a race in this build.
if(BATON_SANITIZE MATCHES "thread")
  add_executable(race_canary ${CMAKE_CURRENT_LIST_DIR}/race_canary.cpp)
  target_link_libraries(race_canary PRIVATE Threads::Threads baton_warnings)
  add_test(NAME race_canary COMMAND race_canary)
  set_tests_properties(race_canary PROPERTIES WILL_FAIL TRUE LABELS tsan TIMEOUT 60)
endif()
