# Run at each build: writes git's commit into OUTPUT, and touches it only when it changed.
# Needs SOURCE_DIR, OUTPUT, VERSION; REVISION, if not empty, is taken instead of git's.
cmake_minimum_required(VERSION 3.25)
if(NOT REVISION)
  execute_process(COMMAND git -C ${SOURCE_DIR} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE REVISION OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed OR NOT REVISION)
    set(REVISION unknown)
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#pragma once
#define EMBEDDING_VERSION \"@VERSION@\"
#define EMBEDDING_REVISION \"@REVISION@\"
" @ONLY)
