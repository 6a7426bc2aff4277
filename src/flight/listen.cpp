// SPDX-License-Identifier: Apache-2.0
#include "flight/listen.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "transport/error_detail.h"

namespace flightshmem {
namespace {

// 0 or the errno of binding `address`.
int TryBind(const addrinfo& address) {
  const int fd = socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol);
  if (fd < 0) return errno;
  // As gRPC does: a port whose last connections are still in TIME_WAIT counts as free.
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  int error = bind(fd, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  // With SO_REUSEADDR a second bind may pass; a second listen does not.
  if (error == 0 && listen(fd, 1) != 0) error = errno;
  close(fd);
  return error;
}

}  // namespace

std::string FlightUri(const std::string& host, int port) {
  const bool is_ipv6 = host.find(':') != std::string::npos && host.front() != '[';
  return "grpc+tcp://" + (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

arrow::Status CannotListen(const std::string& host, int port, const std::string& why) {
  return MakeError(arrow::StatusCode::IOError, "ServerError", "[serve] cannot listen on ", host,
                   ":", port, ": ", why, ": choose another port, or 0 for a free one");
}

arrow::Status CheckCanListen(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failure != 0) {
    return MakeError(arrow::StatusCode::IOError, "ServerError",
                     "[serve] cannot resolve the host, got '", host, "': ", gai_strerror(failure));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  int error = 0;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    error = TryBind(*address);
    if (error != 0) break;
  }
  if (error == 0) return arrow::Status::OK();
  return CannotListen(host, port, std::strerror(error));
}

}  // namespace flightshmem
