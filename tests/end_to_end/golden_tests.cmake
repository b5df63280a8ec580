embedding_test(NAME golden_test SOURCES golden_test.cc LIBRARIES embedding::server embedding::client LABELS e2e
  TIMEOUT 300)
target_compile_definitions(golden_test PRIVATE EMBEDDING_GOLDEN="${CMAKE_SOURCE_DIR}/tests/golden")
embedding_test(NAME cli_end_to_end_test SOURCES cli_test.cc cli_versions_test.cc LIBRARIES embedding::server embedding::cli LABELS e2e)
target_compile_definitions(cli_end_to_end_test PRIVATE EMBEDDING_SAMPLE_DIR="${CMAKE_SOURCE_DIR}/deploy/sample")
