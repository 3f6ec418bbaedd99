baton_test(engines
  SOURCES engines/control_text_test.cpp engines/fingerprint_test.cpp engines/sampler_test.cpp engines/self_test_test.cpp engines/toy_engine_test.cpp
  LINKS baton::engines
  LABELS unit)

if(BATON_LLAMA)
  set(BATON_MODEL "" CACHE FILEPATH "Model file of the tests with a real model; empty is the one of tools/get_llama.sh")
  set(test_model "${BATON_MODEL}")
  if(NOT test_model)
    execute_process(COMMAND ${PROJECT_SOURCE_DIR}/tools/get_llama.sh --where OUTPUT_VARIABLE where)
    string(REGEX MATCH "MODEL=([^\n]*)" found "${where}")
    set(test_model "${CMAKE_MATCH_1}")
  endif()
  # Not by baton_test(): idle OpenMP threads of parallel tests must not spin on shared cores.
  add_executable(test_llama_engine engines/llama_engine_test.cpp engines/llama_tokenizer_test.cpp)
  target_include_directories(test_llama_engine PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(test_llama_engine PRIVATE BATON_TEST_MODEL="${test_model}")
  target_link_libraries(test_llama_engine PRIVATE baton::engines baton_test_main baton_warnings)
  catch_discover_tests(test_llama_engine PROPERTIES LABELS unit TIMEOUT 120 ENVIRONMENT OMP_WAIT_POLICY=passive)
endif()
