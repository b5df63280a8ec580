# The handlers of both services, without a transport.
embedding_test(NAME lookup_test
  SOURCES lookup_missing_test.cc lookup_pooling_test.cc lookup_test.cc pooling_golden_test.cc
  LIBRARIES embedding::service LABELS unit)
embedding_test(NAME lookup_request_test SOURCES lookup_request_test.cc LIBRARIES embedding::service LABELS unit)
embedding_test(NAME row_selection_test SOURCES row_selection_test.cc LIBRARIES embedding::service LABELS unit)
target_compile_definitions(lookup_test PRIVATE
  EMBEDDING_POOLING_GOLDEN="${CMAKE_CURRENT_SOURCE_DIR}/golden/pooling.txt")
embedding_test(NAME lookup_model_test SOURCES lookup_model_test.cc LIBRARIES embedding::service LABELS unit)
embedding_test(NAME lookup_property_test SOURCES lookup_property_test.cc LIBRARIES embedding::service LABELS unit)
embedding_test(NAME search_service_test
  SOURCES example_test.cc filter_test.cc gensim_test.cc neighbour_test.cc operand_test.cc similarity_test.cc
  LIBRARIES embedding::service LABELS unit)
target_compile_definitions(search_service_test PRIVATE EMBEDDING_SAMPLE_DIR="${CMAKE_SOURCE_DIR}/deploy/sample")
embedding_test(NAME field_counts_test SOURCES field_counts_test.cc LIBRARIES embedding::service LABELS unit)
embedding_test(NAME approximate_test SOURCES approximate_test.cc LIBRARIES embedding::service LABELS unit)
embedding_test(NAME table_service_test SOURCES table_service_test.cc LIBRARIES embedding::service LABELS unit)
embedding_test(NAME snapshot_test SOURCES snapshot_test.cc snapshot_reaper_test.cc LIBRARIES embedding::service LABELS unit tsan)
embedding_test(NAME table_admin_service_test SOURCES table_admin_service_test.cc LIBRARIES embedding::service LABELS unit)
embedding_test(NAME admission_test SOURCES admission_test.cc LIBRARIES embedding::service LABELS unit tsan)

embedding_fuzzer(NAME lookup_request_fuzzer SOURCES lookup_request_fuzzer.cc LIBRARIES embedding::service)

# A short run among the tests, so that the benchmark cannot rot.
add_executable(lookup_benchmark lookup_benchmark.cc)
target_link_libraries(lookup_benchmark PRIVATE embedding_compile_options embedding::service
  $<$<BOOL:${EMBEDDING_JEMALLOC}>:${JEMALLOC_LIBRARY}>)
add_test(NAME lookup_benchmark COMMAND lookup_benchmark 1)
set_tests_properties(lookup_benchmark PROPERTIES LABELS benchmark TIMEOUT 120)
