# Tables that change while the server runs.
embedding_test(NAME reload_test SOURCES reload_test.cc
  LIBRARIES embedding_child_server embedding::client embedding_grpc_standard_protos LABELS e2e TIMEOUT 300)
embedding_test(NAME index_file_test SOURCES index_file_test.cc
  LIBRARIES embedding_child_server embedding::client LABELS e2e TIMEOUT 120)
# EMBEDDING_SWAPS=2000 for a long run.
embedding_test(NAME swap_test SOURCES swap_test.cc LIBRARIES embedding_child_server embedding::client LABELS e2e
  TIMEOUT 600)

# A short run among the tests, so that the benchmark cannot rot; without arguments it measures at full size.
add_test(NAME swap_latency COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_LIST_DIR}/swap_latency.py
  ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} --windows 1 --seconds 1 --swap-every 0.2 --rows 1000 --dim 64)
set_tests_properties(swap_latency PROPERTIES LABELS benchmark TIMEOUT 120)
