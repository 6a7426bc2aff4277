// SPDX-License-Identifier: Apache-2.0
#include "flight/auth_middleware.h"

#include <arrow/flight/server.h>

#include <algorithm>
#include <string_view>

namespace flightshmem {
namespace {

namespace flight = arrow::flight;

constexpr std::string_view kScheme = "bearer ";

// Looks at every byte of `expected` even after a difference, so the time tells nothing about where
// the first one is.
bool SameInConstantTime(std::string_view expected, std::string_view given) {
  unsigned char difference = expected.size() == given.size() ? 0 : 1;
  for (size_t i = 0; i < expected.size(); ++i) {
    const char other = given.empty() ? '\0' : given[i % given.size()];
    difference |= static_cast<unsigned char>(expected[i] ^ other);
  }
  return difference == 0;
}

bool HasScheme(std::string_view value) {
  return value.size() >= kScheme.size() &&
         std::equal(kScheme.begin(), kScheme.end(), value.begin(),
                    [](char scheme, char c) { return scheme == std::tolower(c); });
}

class TokenMiddlewareFactory : public flight::ServerMiddlewareFactory {
 public:
  explicit TokenMiddlewareFactory(std::string token) : token_(std::move(token)) {}

  arrow::Status StartCall(const flight::CallInfo&, const flight::ServerCallContext& context,
                          std::shared_ptr<flight::ServerMiddleware>*) override {
    const auto [begin, end] = context.incoming_headers().equal_range("authorization");
    bool given = false;
    for (auto header = begin; header != end; ++header) {
      if (!HasScheme(header->second)) continue;
      given = true;
      if (SameInConstantTime(token_, header->second.substr(kScheme.size()))) {
        return arrow::Status::OK();
      }
    }
    return flight::MakeFlightError(
        flight::FlightStatusCode::Unauthenticated,
        given ? "[flight] wrong token: use the one of the server's token file"
              : "[flight] no token: send the header 'authorization: Bearer <token>' with the token "
                "of the server's token file");
  }

 private:
  const std::string token_;
};

}  // namespace

std::shared_ptr<flight::ServerMiddlewareFactory> MakeTokenMiddleware(std::string token) {
  return std::make_shared<TokenMiddlewareFactory>(std::move(token));
}

}  // namespace flightshmem
