# find_package(embedding) -> embedding::client
include(CMakeFindDependencyMacro)
find_dependency(Threads)
# In module mode and before gRPC: Debian's Protobuf has no config file, and a mixture of both defines its targets twice.
find_dependency(Protobuf MODULE)
find_dependency(gRPC CONFIG)
find_dependency(absl CONFIG)
include(${CMAKE_CURRENT_LIST_DIR}/embedding-targets.cmake)
