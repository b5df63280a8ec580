# The server as a process: settings, signals, ports, health.
add_library(embedding_child_server STATIC child_server.cc child_server.h)
target_link_libraries(embedding_child_server PUBLIC embedding_compile_options absl::strings embedding::exec
  PRIVATE Threads::Threads)
target_compile_definitions(embedding_child_server PUBLIC
  EMBEDDING_SERVER_BINARY="$<TARGET_FILE:embedding-server>" EMBEDDING_SAMPLE_DIR="${CMAKE_SOURCE_DIR}/deploy/sample")
add_dependencies(embedding_child_server embedding-server)

embedding_test(NAME process_settings_test SOURCES process_settings_test.cc LIBRARIES embedding_child_server LABELS e2e
  TIMEOUT 300)
embedding_test(NAME process_serving_test SOURCES process_serving_test.cc
  LIBRARIES embedding_child_server embedding_proto_generated embedding_grpc_standard_protos LABELS e2e TIMEOUT 300)
embedding_test(NAME process_drain_test SOURCES process_drain_test.cc
  LIBRARIES embedding_child_server embedding_proto_generated embedding_grpc_standard_protos LABELS e2e TIMEOUT 300)
