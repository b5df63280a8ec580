embedding_test(NAME metrics_test SOURCES metrics_test.cc LIBRARIES embedding::metrics LABELS unit tsan)
embedding_test(NAME log_format_test SOURCES log_format_test.cc LIBRARIES embedding::log LABELS unit)
embedding_test(NAME log_queue_test SOURCES log_queue_test.cc LIBRARIES embedding::log LABELS unit tsan)
embedding_test(NAME log_test SOURCES log_test.cc LIBRARIES embedding::log gRPC::gpr LABELS unit)

add_executable(metrics_page metrics_page.cc)
target_link_libraries(metrics_page PRIVATE embedding::metrics)
add_test(NAME promtool_metrics_test
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/promtool_metrics_test.sh $<TARGET_FILE:metrics_page>)
set_tests_properties(promtool_metrics_test PROPERTIES LABELS unit SKIP_RETURN_CODE 77 TIMEOUT 60)
