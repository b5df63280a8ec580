# What watches and deploys the server: its streams, Prometheus' rules, a live Prometheus, the container image.
add_test(NAME prometheus_rules_test
  COMMAND ${CMAKE_CURRENT_LIST_DIR}/prometheus_rules_test.sh ${CMAKE_SOURCE_DIR} $<TARGET_FILE:metrics_page>)
set_tests_properties(prometheus_rules_test PROPERTIES LABELS "unit" SKIP_RETURN_CODE 77 TIMEOUT 60)

add_test(NAME prometheus_test
  COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_LIST_DIR}/prometheus_test.py $<TARGET_FILE:embedding-server>)
set_tests_properties(prometheus_test PROPERTIES LABELS "e2e;prometheus" SKIP_RETURN_CODE 77 TIMEOUT 300)

# Builds everything once more inside the image: minutes the first time.
add_test(NAME image_test COMMAND ${CMAKE_CURRENT_LIST_DIR}/image_test.sh ${CMAKE_SOURCE_DIR})
set_tests_properties(image_test PROPERTIES LABELS "e2e;image" SKIP_RETURN_CODE 77 TIMEOUT 2400 PROCESSORS 2)

add_test(NAME unread_output_test
  COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_LIST_DIR}/unread_output_test.py $<TARGET_FILE:embedding-server>)
set_tests_properties(unread_output_test PROPERTIES LABELS "e2e" TIMEOUT 300)
