# Installs the client library into a folder of its own, builds the project here against it and runs it.
# cmake -DBUILD_DIR=... -DSOURCE_DIR=... -DWORK_DIR=... -P consumer_test.cmake
file(REMOVE_RECURSE ${WORK_DIR})
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --component client-dev --prefix ${WORK_DIR}/prefix)
run(${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${WORK_DIR}/build -G Ninja -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix
  -DCMAKE_CXX_COMPILER=${CXX_COMPILER})
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
execute_process(COMMAND ${WORK_DIR}/build/consumer unix:${WORK_DIR}/no-such-socket
  RESULT_VARIABLE code ERROR_VARIABLE said)
if(NOT code EQUAL 78 OR NOT said MATCHES "cannot reach unix:")
  message(FATAL_ERROR "expected exit code 78 (UNAVAILABLE) and the address, got ${code}: ${said}")
endif()
message(STATUS "consumer said: ${said}")
