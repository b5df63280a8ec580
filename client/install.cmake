# The client library as a package: find_package(embedding) -> embedding::client. Component client-dev.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/embedding)

# Headers include each other from the repository's root ("client/types.h"), users include <embedding/client/...>.
install(FILES client_options.h embedding_client.h lookup_stream.h types.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/embedding/client COMPONENT client-dev)
target_include_directories(embedding_client INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/embedding>)

# Static archives need the archives that they call, and the sanitizer they were built with.
set_target_properties(embedding_client PROPERTIES EXPORT_NAME client)
set_target_properties(embedding_proto PROPERTIES EXPORT_NAME proto)
set_target_properties(embedding_proto_generated PROPERTIES EXPORT_NAME proto_generated)
set_target_properties(embedding_compile_options PROPERTIES EXPORT_NAME compile_options)
install(TARGETS embedding_client embedding_proto embedding_proto_generated embedding_compile_options
  EXPORT embedding-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT client-dev)
install(EXPORT embedding-targets NAMESPACE embedding:: DESTINATION ${package_dir} COMPONENT client-dev)

write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/embedding-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES embedding-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/embedding-config-version.cmake
  DESTINATION ${package_dir} COMPONENT client-dev)
