#include "server/service/reflection_service.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "embedding/v1/embedding.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/rpc/error_details.pb.h"
#include "grpc/health/v1/health.pb.h"
#include "grpc/reflection/v1/reflection.pb.h"
#include "grpc/reflection/v1alpha/reflection.pb.h"
#include "proto/status_codec.h"
#include "server/service/message_bytes.h"

namespace embedding {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

// A static library's file is linked, and its descriptors registered, only if something in it is named.
void KeepDescriptors() {
  embedding::v1::LookupRequest::descriptor();
  google::rpc::ErrorInfo::descriptor();
  grpc::health::v1::HealthCheckRequest::descriptor();
  grpc::reflection::v1alpha::ServerReflectionRequest::descriptor();
}

class ReflectionHandler final : public StreamHandler {
 public:
  ReflectionHandler(std::shared_ptr<const std::vector<std::string>> services, StreamPtr stream)
      : services_(std::move(services)), stream_(std::move(stream)) {}

  void OnMessage(const grpc::ByteBuffer& message) override {
    ServerReflectionRequest request;
    if (!FromBytes(message, request)) {
      return stream_->Finish(
          grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the request is not a ServerReflectionRequest"));
    }
    ServerReflectionResponse response;
    response.set_valid_host(request.host());
    *response.mutable_original_request() = request;
    Answer(request, response);
    stream_->Write(ToBytes(response));
  }

  void OnHalfClose() override { stream_->Finish(grpc::Status::OK); }

 private:
  void Answer(const ServerReflectionRequest& request, ServerReflectionResponse& response) {
    const DescriptorPool& pool = *DescriptorPool::generated_pool();
    switch (request.message_request_case()) {
      case ServerReflectionRequest::kFileByFilename:
        return AnswerFile(pool.FindFileByName(request.file_by_filename()), "file", request.file_by_filename(),
                          response);
      case ServerReflectionRequest::kFileContainingSymbol:
        return AnswerFile(pool.FindFileContainingSymbol(request.file_containing_symbol()), "symbol",
                          request.file_containing_symbol(), response);
      case ServerReflectionRequest::kFileContainingExtension:
        return AnswerExtension(pool, request.file_containing_extension(), response);
      case ServerReflectionRequest::kAllExtensionNumbersOfType:
        return AnswerExtensionNumbers(pool, request.all_extension_numbers_of_type(), response);
      case ServerReflectionRequest::kListServices:
        for (const std::string& service : *services_) {
          response.mutable_list_services_response()->add_service()->set_name(service);
        }
        return;
      case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
        return AnswerError(grpc::StatusCode::INVALID_ARGUMENT, "the request asks nothing", response);
    }
  }

  static void AnswerError(grpc::StatusCode code, const std::string& message, ServerReflectionResponse& response) {
    response.mutable_error_response()->set_error_code(code);
    response.mutable_error_response()->set_error_message(message);
  }

  static void AnswerNotFound(absl::string_view kind, const std::string& name, ServerReflectionResponse& response) {
    AnswerError(grpc::StatusCode::NOT_FOUND, absl::StrCat("no ", kind, " '", Escaped(name), "'"), response);
  }

  void AnswerFile(const FileDescriptor* file, absl::string_view kind, const std::string& name,
                  ServerReflectionResponse& response) {
    if (file == nullptr) return AnswerNotFound(kind, name, response);
    response.mutable_file_descriptor_response();
    AddFile(file, /*asked_for=*/true, response);
  }

  // The file and what it imports, without what this stream has been sent already.
  void AddFile(const FileDescriptor* file, bool asked_for, ServerReflectionResponse& response) {
    const bool is_new = sent_.insert(file).second;
    if (!is_new && !asked_for) return;
    google::protobuf::FileDescriptorProto proto;
    file->CopyTo(&proto);
    response.mutable_file_descriptor_response()->add_file_descriptor_proto(proto.SerializeAsString());
    for (int i = 0; i < file->dependency_count(); ++i) AddFile(file->dependency(i), /*asked_for=*/false, response);
  }

  void AnswerExtension(const DescriptorPool& pool, const grpc::reflection::v1::ExtensionRequest& request,
                       ServerReflectionResponse& response) {
    const Descriptor* type = pool.FindMessageTypeByName(request.containing_type());
    if (type == nullptr) return AnswerNotFound("message type", request.containing_type(), response);
    const FieldDescriptor* extension = pool.FindExtensionByNumber(type, request.extension_number());
    if (extension == nullptr) {
      return AnswerError(
          grpc::StatusCode::NOT_FOUND,
          absl::StrCat("no extension ", request.extension_number(), " of '", Escaped(request.containing_type()), "'"),
          response);
    }
    response.mutable_file_descriptor_response();
    AddFile(extension->file(), /*asked_for=*/true, response);
  }

  static void AnswerExtensionNumbers(const DescriptorPool& pool, const std::string& name,
                                     ServerReflectionResponse& response) {
    const Descriptor* type = pool.FindMessageTypeByName(name);
    if (type == nullptr) return AnswerNotFound("message type", name, response);
    auto* answer = response.mutable_all_extension_numbers_response();
    answer->set_base_type_name(name);
    std::vector<const FieldDescriptor*> extensions;
    pool.FindAllExtensions(type, &extensions);
    std::vector<int> numbers;
    for (const FieldDescriptor* extension : extensions) numbers.push_back(extension->number());
    std::sort(numbers.begin(), numbers.end());
    for (const int number : numbers) answer->add_extension_number(number);
  }

  const std::shared_ptr<const std::vector<std::string>> services_;
  const StreamPtr stream_;
  std::set<const FileDescriptor*> sent_;
};

}  // namespace

std::vector<StreamMethod> ReflectionMethods(std::vector<std::string> services) {
  KeepDescriptors();
  const auto shared = std::make_shared<const std::vector<std::string>>(std::move(services));
  std::vector<StreamMethod> methods;
  for (const std::string& name : ReflectionServiceNames()) {
    methods.push_back({absl::StrCat("/", name, "/ServerReflectionInfo"), [shared](StreamPtr stream) {
                         return std::make_unique<ReflectionHandler>(shared, std::move(stream));
                       }});
  }
  return methods;
}

std::vector<std::string> ReflectionServiceNames() {
  return {"grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"};
}

}  // namespace embedding
