# Shows that the thread sanitizer catches a race in this build.
if(BATON_SANITIZE MATCHES "thread")
  add_executable(race_canary ${CMAKE_CURRENT_LIST_DIR}/race_canary.cpp)
  target_link_libraries(race_canary PRIVATE Threads::Threads baton_warnings)
  add_test(NAME race_canary COMMAND race_canary)
  # Found, and not merely failed: a sanitizer that cannot start fails, too.
  set_tests_properties(race_canary PROPERTIES PASS_REGULAR_EXPRESSION "ThreadSanitizer: data race" LABELS unit TIMEOUT 60)
endif()
