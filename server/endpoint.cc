#include "server/endpoint.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/values.h"

namespace embedding {
namespace {

constexpr char kUnixPrefix[] = "unix:";

// A socket of ours for the time of a check.
class Socket {
 public:
  explicit Socket(int family) : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

std::string ErrorText(int error) {
  if (error == EADDRINUSE) return "address already in use";
  std::string text = std::strerror(error);
  if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return text;
}

sockaddr_un UnixAddress(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), std::min(path.size() + 1, sizeof(address.sun_path)));
  return address;
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// error: of getaddrinfo, when the list is empty.
AddressList Lookup(const std::string& host, const std::string& port, int flags, int& error) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  error = getaddrinfo(host.c_str(), port.c_str(), &hints, &list);
  return AddressList(error == 0 ? list : nullptr, &freeaddrinfo);
}

}  // namespace

absl::StatusOr<Endpoint> ParseEndpoint(absl::string_view text, bool allow_unix) {
  Endpoint endpoint;
  if (allow_unix && absl::ConsumePrefix(&text, kUnixPrefix)) {
    const size_t longest = sizeof(sockaddr_un::sun_path) - 1;
    if (text.empty() || text.size() > longest) {
      return absl::InvalidArgumentError(absl::StrCat("want unix:PATH with a path of 1 to ", longest, " bytes"));
    }
    endpoint.unix_path = std::string(text);
    return endpoint;
  }
  const absl::Status wanted = absl::InvalidArgumentError(
      absl::StrCat("want HOST:PORT", allow_unix ? ", [HOST6]:PORT or unix:PATH" : "", ", port 0 to 65535"));
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return wanted;
  absl::string_view host = text.substr(0, colon);
  const bool bracketed = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  const absl::StatusOr<int64_t> port = ParseCount(text.substr(colon + 1), 0, 65535);
  // An IPv6 address without brackets would leave open where it ends.
  if (!port.ok() || host.empty() || host.find_first_of("[] \t/") != absl::string_view::npos ||
      (!bracketed && host.find(':') != absl::string_view::npos)) {
    return wanted;
  }
  endpoint.host = std::string(host);
  endpoint.port = static_cast<uint16_t>(*port);
  return endpoint;
}

absl::StatusOr<std::vector<std::string>> ResolveEndpoint(const Endpoint& endpoint) {
  int error = 0;
  const std::string port = absl::StrCat(endpoint.port);
  // A numeric address needs no name service, and is taken even where no interface of its family is up.
  AddressList list = Lookup(endpoint.host, port, AI_NUMERICHOST, error);
  if (list == nullptr) list = Lookup(endpoint.host, port, AI_ADDRCONFIG, error);
  if (list == nullptr) {
    return absl::UnavailableError(absl::StrCat("the host '", endpoint.host, "' is not known: ", gai_strerror(error)));
  }
  std::vector<std::string> addresses;
  for (const addrinfo* info = list.get(); info != nullptr; info = info->ai_next) {
    char host[NI_MAXHOST];
    if (getnameinfo(info->ai_addr, info->ai_addrlen, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) continue;
    std::string address =
        info->ai_family == AF_INET6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) {
      addresses.push_back(std::move(address));
    }
  }
  return addresses;
}

absl::Status ClearUnixSocket(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return absl::UnavailableError(ErrorText(errno));
  }
  if (!S_ISSOCK(info.st_mode)) return absl::UnavailableError("there is a file at this path that is no socket");
  const Socket probe(AF_UNIX);
  const sockaddr_un address = UnixAddress(path);
  if (connect(probe.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 || errno == EAGAIN) {
    return absl::UnavailableError("address already in use: a server answers there");
  }
  if (errno != ECONNREFUSED) return absl::UnavailableError(ErrorText(errno));
  if (unlink(path.c_str()) != 0) return absl::UnavailableError(ErrorText(errno));
  return absl::OkStatus();
}

std::string WhyNotBound(const std::string& numeric) {
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(numeric, /*allow_unix=*/true);
  if (!endpoint.ok()) return std::string(endpoint.status().message());
  if (!endpoint->unix_path.empty()) {
    const Socket probe(AF_UNIX);
    const sockaddr_un address = UnixAddress(endpoint->unix_path);
    if (bind(probe.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return ErrorText(errno);
    unlink(endpoint->unix_path.c_str());
    return "unknown reason";
  }
  int error = 0;
  const AddressList list = Lookup(endpoint->host, absl::StrCat(endpoint->port), AI_NUMERICHOST, error);
  if (list == nullptr) return gai_strerror(error);
  const Socket probe(list->ai_family);
  const int on = 1;
  setsockopt(probe.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(probe.fd(), list->ai_addr, list->ai_addrlen) != 0 || listen(probe.fd(), 1) != 0) return ErrorText(errno);
  return "unknown reason";
}

}  // namespace embedding
