embedding_test(NAME rpc_server_test SOURCES rpc_server_test.cc health_service_test.cc
  LIBRARIES embedding::transport embedding::exec embedding_grpc_standard_protos LABELS unit)
embedding_test(NAME lookup_stream_test SOURCES lookup_stream_test.cc
  LIBRARIES embedding::service embedding::transport embedding::exec LABELS unit)
embedding_test(NAME row_references_test SOURCES row_references_test.cc
  LIBRARIES embedding::service embedding::transport embedding::exec LABELS unit)
