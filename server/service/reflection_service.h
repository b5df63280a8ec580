// grpc.reflection.v1 and v1alpha: what this server can be asked, told by itself.
//
// Not gRPC's library, which in 1.51 has only v1alpha. Both versions have the same messages but for the package's name,
// so one implementation reads and writes the bytes of both.
#pragma once

#include <string>
#include <vector>

#include "server/service/stream.h"

namespace embedding {

// services: full names of all services that the server has, those of reflection included; their descriptors are
// compiled in.
std::vector<StreamMethod> ReflectionMethods(std::vector<std::string> services);

// "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection".
std::vector<std::string> ReflectionServiceNames();

}  // namespace embedding
